package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An API server's clock jumps ahead by two hours after it has issued a token, and later back by an hour.
//
// Rules: FI-16
func TestTheClockOfTheServerJumps(t *testing.T) {
	withBot(t, func(w *testServer) {
		admin := []string{"Authorization", "Bearer admin"}
		jump := func(by string) {
			w.must(204, "PUT", "/skiff/faults", `{"faults":[{"clock":"`+by+`"}]}`, admin...)
		}
		hours := func(n int) string { return time.Now().Add(time.Duration(n) * time.Hour).UTC().Format(time.RFC3339) }
		token := w.tokenOf("")
		if got := w.whoIs(token); got != bot {
			t.Errorf("before the jump the token is of %s", got)
		}

		jump("2h")
		if got := w.whoIs(token); got != "401" {
			t.Errorf("the token expired by the server's clock, and is of %s", got)
		}
		a := w.must(201, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"a","finalizers":["x.io/a"]},`+
			`"spec":{"containers":[{"name":"a","image":"a"}]}}`, admin...)
		if at, err := http.ParseTime(a.header.Get("Date")); err != nil || at.Format(time.RFC3339) != hours(2) {
			t.Errorf("Date: %s", a.header.Get("Date"))
		}
		managed, _ := a.at("metadata.managedFields").([]any)
		if a.at("metadata.creationTimestamp") != hours(2) || len(managed) != 1 ||
			managed[0].(map[string]any)["time"] != hours(2) {
			t.Errorf("created: %s, now it is %s", a.raw, hours(0))
		}
		if got := w.whoIs(w.tokenOf("")); got != bot {
			t.Errorf("a token by the new time is of %s", got)
		}

		jump("-1h")
		a = w.must(200, "DELETE", "/api/v1/namespaces/default/pods/a?gracePeriodSeconds=0", "", admin...)
		if a.at("metadata.deletionTimestamp") != hours(-1) {
			t.Errorf("deleted at %v, before %s", a.at("metadata.deletionTimestamp"), hours(-1))
		}
		a = w.must(200, "GET", "/api/v1/namespaces/default/pods/a", "", append(admin, "Accept", tableFirst)...)
		if row := fmt.Sprint(a.at("rows")); !strings.Contains(row, "<invalid>") {
			t.Errorf("the age of an object from the future: %s", row)
		}
		if got := w.whoIs(token); got != "401" {
			t.Errorf("a token of the future is of %s", got)
		}
	})
}

// Rules: FI-16
func TestTheClockOfOneOfSeveralServersIsWrong(t *testing.T) {
	withServer(t, Options{Replicas: 2}, func(w *testServer) {
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"replica":2,"clock":"-30s","skip":1,"times":1}]}`)
		other, end := w.through(2)
		defer end()
		for i, want := range []time.Duration{0, -30 * time.Second, 0} {
			a := other.must(201, "POST", configMaps, configMap(fmt.Sprint("a", i)))
			if a.at("metadata.creationTimestamp") != time.Now().Add(want).UTC().Format(time.RFC3339) {
				t.Errorf("request %d: %s", i, a.raw)
			}
		}
		w.must(201, "POST", configMaps, configMap("b"))
	})
}
