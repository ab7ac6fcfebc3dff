package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// What keeps a client from asking too much is the server's priority and fairness: 429 with Retry-After.
//
// Rules: MGR-11
func TestFiveHundredWritesAreNotHeldBackByTheClient(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		began := time.Now()
		var writers sync.WaitGroup
		for i := range 500 {
			writers.Go(func() { create(t, c, fmt.Sprintf("m%d", i)) })
		}
		writers.Wait()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("500 creates took %s", took)
		}
	})
}

// Rules: WRT-09
func TestAnApplyThatMeetsAnotherManagerNamesItAndTheField(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		apply := func(manager, value string, force bool) error {
			body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"},
				"data": map[string]any{"k": value}}
			return c.Patch(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "a"}, kube.ApplyPatch, body,
				nil, kube.WriteOptions{FieldManager: manager, Force: force})
		}
		if err := apply("first", "1", false); err != nil {
			t.Fatal(err)
		}
		err := apply("second", "2", false)
		if !kube.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "first"`) ||
			!strings.Contains(err.Error(), ".data.k") {
			t.Errorf("without force: %v", err)
		}
		if status := kube.AsStatus(err); status == nil || len(status.Details.Causes) != 1 ||
			status.Details.Causes[0].Reason != "FieldManagerConflict" {
			t.Errorf("the causes: %+v", status)
		}
		if err := apply("second", "2", true); err != nil {
			t.Errorf("with force: %v", err)
		}
	})
}

// Rules: WRT-31
func TestABodyThatIsTooLargeIsSentOnceAndRefusedForGood(t *testing.T) {
	api := apiserver.New(apiserver.Options{})
	t.Cleanup(api.Close)
	pipe := api.ListenPipe()
	t.Cleanup(func() { pipe.Close() })
	c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, mib := range []int{2, 4} {
		api.ForgetRequests()
		err := c.Create(t.Context(), configMaps, "default", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "a"}, "data": map[string]any{"k": strings.Repeat("x", mib<<20)}}, nil,
			kube.WriteOptions{})
		if !kube.IsRefused(err) && !kube.IsInvalid(err) {
			t.Errorf("%d MiB: %.200v", mib, err)
		}
		if n := len(api.Requests()); n != 1 {
			t.Errorf("%d MiB: sent %d times", mib, n)
		}
	}
}

// Whoever puts an object back whole erases what its struct does not name: the mirror has no managedFields, and a newer
// server has fields of its own. So nothing is able to.
//
// Rules: CCH-19, WRT-30
func TestNothingIsAbleToReplaceAnObject(t *testing.T) {
	client := reflect.TypeFor[*kube.Client]()
	for i := range client.NumMethod() {
		if name := client.Method(i).Name; regexp.MustCompile("^(Update|Replace|Put)").MatchString(name) {
			t.Errorf("kube.Client has the method %s", name)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		put := "http.Method" + "Put"
		if !strings.HasSuffix(name, "_test.go") && strings.Contains(string(text), put) {
			t.Errorf("%s uses %s", name, put)
		}
	}
}

// What reads the mirror cannot wait or fail like a request, and takes no context; what asks the server needs one.
//
// Rules: CCH-17
func TestAReadOfTheMirrorCannotBeTakenForOneOfTheServer(t *testing.T) {
	for reader, live := range map[reflect.Type]bool{reflect.TypeFor[*cache.Store[*configMap]](): false,
		reflect.TypeFor[*kube.Client](): true} {
		found := 0
		for i := range reader.NumMethod() {
			m := reader.Method(i)
			if !regexp.MustCompile("^(Get|List|By)").MatchString(m.Name) {
				continue
			}
			found++
			takes := m.Type.NumIn() > 1 && m.Type.In(1).String() == "context.Context"
			if takes != live {
				t.Errorf("%s.%s takes a context: %v, want %v", reader, m.Name, takes, live)
			}
		}
		if found == 0 {
			t.Errorf("%s has no method that reads", reader)
		}
	}
}
