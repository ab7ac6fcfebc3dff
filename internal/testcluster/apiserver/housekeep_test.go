package apiserver

import (
	"testing"
	"time"
)

func TestTheServiceOfTheServerComesBackWithinTenSeconds(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		before := w.must(200, "GET", services+"/kubernetes", "")
		w.must(200, "DELETE", services+"/kubernetes", "")
		time.Sleep(serviceCheck - time.Second)
		w.must(404, "GET", services+"/kubernetes", "")
		time.Sleep(2 * time.Second)
		after := w.must(200, "GET", services+"/kubernetes", "")
		if after.at("spec.clusterIP") != before.at("spec.clusterIP") ||
			after.at("metadata.uid") == before.at("metadata.uid") {
			t.Errorf("the Service that came back: %s\nwant a new one with the address of\n%s", after.raw, before.raw)
		}
		w.must(200, "DELETE", services+"/kubernetes", "")
		time.Sleep(serviceCheck + time.Second)
		w.must(200, "GET", services+"/kubernetes", "")
	})
}
