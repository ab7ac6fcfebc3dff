package apiserver

import (
	"fmt"
	"net/http"
	"testing"

	"skiff/internal/runtime/kube"
)

// BenchmarkAmongMany shows what each request costs where there are many objects of the kind.
func BenchmarkAmongMany(b *testing.B) {
	service := func(name string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"selector":{"app":"a"},"ports":[{"port":80}]}}`
	}
	pod := func(name string) string {
		return `{"metadata":{"name":"` + name + `","labels":{"app":"` + name + `"}},"spec":{"containers":[
			{"name":"c","image":"i"}]}}`
	}
	for _, many := range []int{10, 1000, 10_000} {
		for _, of := range []struct {
			plural, path string
			body         func(string) string
		}{{"services", services, service}, {"pods", pods, pod}} {
			s := New(Options{HistoryEvents: 100})
			for i := range many {
				sendTo(b, s, http.MethodPost, of.path, of.body(fmt.Sprintf("o%d", i)), "application/json")
			}
			run := func(name string, request func(i int)) {
				b.Run(fmt.Sprintf("%s/%d/%s", of.plural, many, name), func(b *testing.B) {
					for i := range b.N {
						request(i)
					}
				})
			}
			run("create+delete", func(int) {
				sendTo(b, s, http.MethodPost, of.path, of.body("one-more"), "application/json")
				sendTo(b, s, http.MethodDelete, of.path+"/one-more?gracePeriodSeconds=0", "", "")
			})
			run("create+delete+list", func(int) {
				sendTo(b, s, http.MethodPost, of.path, of.body("one-more"), "application/json")
				sendTo(b, s, http.MethodGet, "/api/v1/namespaces/other/"+of.plural, "", "")
				sendTo(b, s, http.MethodDelete, of.path+"/one-more?gracePeriodSeconds=0", "", "")
			})
			run("patch", func(i int) {
				sendTo(b, s, http.MethodPatch, of.path+"/o0",
					fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i), string(kube.MergePatch))
			})
			run("select", func(int) { sendTo(b, s, http.MethodGet, of.path+"?labelSelector=app%3Do0", "", "") })
			s.Close()
		}
	}
}
