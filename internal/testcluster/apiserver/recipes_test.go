package apiserver

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each of the faults in examples/testing/README.md does what is said above it.
func TestTheRecipesOfTheDocumentsDoWhatTheySay(t *testing.T) {
	text, err := os.ReadFile("../../../examples/testing/README.md")
	if err != nil {
		t.Fatal(err)
	}
	recipes := regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	checks := []func(w *testServer){
		func(w *testServer) { // overloaded for three writes
			for _, code := range []int{429, 429, 429, 201} {
				a := w.must(code, "POST", configMaps, configMap("a"))
				if wait := a.header.Get("Retry-After"); (wait == "1") != (code == 429) {
					t.Errorf("%d with Retry-After %q", code, wait)
				}
			}
		},
		func(w *testServer) { // created, and not answered
			if _, err := w.request(w.t.Context(), "POST", configMaps, configMap("a")); err == nil {
				t.Error("the request got an answer")
			}
			w.must(409, "POST", configMaps, configMap("a"))
		},
		func(w *testServer) { // conflicts, the same each time
			w.must(201, "POST", configMaps, configMap("a"))
			codes := map[int]int{}
			for range 40 {
				codes[w.do("PUT", configMaps+"/a", configMap("a")).code]++
			}
			if codes[409] != 26 || codes[200] != 14 {
				t.Errorf("40 updates: %v", codes)
			}
		},
		func(w *testServer) { // watches end, and then repeat and reorder
			first := w.create(configMaps, "0")
			w.create(configMaps, "a", "b")
			path := configMaps + "?watch=1&resourceVersion=" + first
			gone := w.watch(path)
			if f := gone.next(); f.Type != "ERROR" || f.at("code") != float64(410) {
				t.Errorf("the first watch: %v", f)
			}
			gone.close()
			watch := w.watch(path)
			names := ""
			for range 4 {
				names += watch.next().at("metadata.name").(string)
			}
			if names != "bbaa" {
				t.Errorf("the second watch has %s", names)
			}
			watch.close()
		},
		func(w *testServer) { // a watch falls silent
			watch := w.watch(configMaps + "?watch=1")
			w.create(configMaps, "a", "b", "c")
			watch.next()
			watch.next()
			ended := make(chan error, 1)
			go func() { ended <- watch.end() }()
			select {
			case err := <-ended:
				t.Errorf("the watch ended or went on: %v", err)
			case <-time.After(10 * time.Minute):
			}
			watch.close()
			<-ended
		},
		func(w *testServer) { // a replica is behind
			time.Sleep(time.Minute)
			w.create(configMaps, "a")
			late, end := w.through(2)
			defer end()
			if got := itemNames(late.must(200, "GET", configMaps+"?resourceVersion=0", "")); got != "" {
				t.Errorf("the replica has %s", got)
			}
			time.Sleep(10 * time.Second)
			if got := itemNames(late.must(200, "GET", configMaps+"?resourceVersion=0", "")); got != "a" {
				t.Errorf("the replica has %q after ten seconds", got)
			}
		},
		func(w *testServer) { // the clock jumps and comes back
			for i := range 11 {
				want := time.Now().UTC()
				if i >= 5 && i < 10 {
					want = want.Add(2 * time.Hour)
				}
				a := w.must(201, "POST", configMaps, configMap(fmt.Sprint("a", i)))
				if a.at("metadata.creationTimestamp") != want.Format(time.RFC3339) {
					t.Errorf("object %d: %v, want %s", i, a.at("metadata.creationTimestamp"), want)
				}
			}
		},
	}
	if len(recipes) != len(checks) {
		t.Fatalf("%d recipes and %d checks", len(recipes), len(checks))
	}
	for i, check := range checks {
		withServer(t, Options{Replicas: 2}, func(w *testServer) {
			w.must(204, "PUT", "/skiff/faults", recipes[i][1])
			check(w)
		})
	}
}

// What a fault can have, and each name of a value, is in the documents, for those who do not read this package.
func TestTheDocumentsNameEachFieldOfAFault(t *testing.T) {
	text, err := os.ReadFile("../../../examples/testing/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "## Faults")
	var names func(of reflect.Type) []string
	names = func(of reflect.Type) (all []string) {
		if of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			return names(of.Elem())
		}
		for i := 0; of.Kind() == reflect.Struct && i < of.NumField(); i++ {
			all = append(all, of.Field(i).Tag.Get("json"))
			all = append(all, names(of.Field(i).Type)...)
		}
		return all
	}
	for _, fault := range []string{`"cut":%q`, `"by":%q`, `"gzip":%q`, `"rewrite":%q`, `"watch":{"gone":%q}`,
		`"watch":{"bookmarks":%q}`, `"watch":{"end":%q}`} {
		_, err := ParseFaults(fmt.Appendf(nil, `{"faults":[{`+fault+`}]}`, "unknown"))
		_, known, ok := strings.Cut(fmt.Sprint(err), " is none of ")
		if !ok {
			t.Errorf("%s: %v", fault, err)
		}
		for _, name := range strings.Split(known, ", ") {
			if !strings.Contains(tables, "`"+name+"`") {
				t.Errorf("the value %s of %s is not in the tables", name, fault)
			}
		}
	}
	fields := names(reflect.TypeFor[FaultSet]())
	if len(fields) < 50 {
		t.Errorf("only %d fields: %q", len(fields), fields)
	}
	for _, name := range fields {
		if !strings.Contains(tables, "`"+name+"`") {
			t.Errorf("the field %s is not in the tables", name)
		}
	}
}
