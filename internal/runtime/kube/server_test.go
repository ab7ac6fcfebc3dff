package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}

type configMap struct {
	kube.Meta `json:"metadata"`
	Data      map[string]string `json:"data"`
}

// inWorld runs a test in virtual time with a client of an embedded API server.
func inWorld(t *testing.T, o apiserver.Options, test func(t *testing.T, c *kube.Client)) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.New(o)
		p := s.ListenPipe()
		c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: p.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { c.Close(); p.Close(); s.Close() }()
		test(t, c)
	})
}

func create(t *testing.T, c *kube.Client, name string) *configMap {
	t.Helper()
	var made configMap
	body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
		"data": map[string]any{"n": "0"}}
	if err := c.Create(t.Context(), configMaps, "default", body, &made, kube.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return &made
}

var configMapBodies = []map[string]any{
	{"metadata": map[string]any{"name": "a", "labels": map[string]any{"x": "1"}},
		"data": map[string]any{"k": "v", "l": ""}},
	{"metadata": map[string]any{"name": "b", "finalizers": []any{"example.com/f"}}},
}

// A page, a streamed list and an event bring the same fields, those that the struct declares.
//
// Rules: CCH-18
func TestListsAndWatchesAreTheSameInBothEncodings(t *testing.T) {
	read := func(t *testing.T, c *kube.Client) (out []*configMap) {
		query := kube.Query{Resource: configMaps}
		list, err := kube.List[*configMap](t.Context(), c, query, kube.ListOptions{Limit: 1})
		if err != nil || len(list.Bad) > 0 {
			t.Fatal(err, list.Bad)
		}
		w, err := kube.Watch[*configMap](t.Context(), c, query, kube.WatchOptions{SendInitialEvents: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for {
			switch ev, err := w.Next(); {
			case err != nil:
				t.Fatal(err)
			case ev.InitialEventsEnd && ev.ResourceVersion == list.ResourceVersion:
				return append(out, list.Items...)
			default:
				out = append(out, ev.Object)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.New(apiserver.Options{})
		p := s.ListenPipe()
		defer func() { p.Close(); s.Close() }()
		var got [2][]*configMap
		for i, onlyJSON := range []bool{false, true} {
			c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: p.Dial, OnlyJSON: onlyJSON})
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range configMapBodies {
				err := c.Create(t.Context(), configMaps, "default", body, nil, kube.WriteOptions{})
				if err != nil && !kube.IsAlreadyExists(err) {
					t.Fatal(err)
				}
			}
			got[i] = read(t, c)
			// The error of a request in protobuf is in protobuf too.
			_, err = kube.List[*configMap](t.Context(), c, kube.Query{Resource: configMaps},
				kube.ListOptions{ResourceVersion: "999999", ResourceVersionMatch: "Exact"})
			if !kube.IsTooLargeResourceVersion(err) {
				t.Errorf("onlyJSON %v: got %v, want a resource version that is too large", onlyJSON, err)
			}
			c.Close()
		}
		if !reflect.DeepEqual(got[0], got[1]) || len(got[0]) != 4 {
			t.Errorf("protobuf gives %+v, JSON %+v", got[0], got[1])
		}
	})
}

// Rules: WRT-03
func TestConcurrentPatchesWithAResourceVersionAreNeverLost(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		const workers, each = 8, 10
		k := create(t, c, "counter").Key()
		var running sync.WaitGroup
		conflicts := make([]int, workers)
		increment := func(worker int) {
			for {
				var now configMap
				if err := c.Get(t.Context(), configMaps, k, &now); err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(now.Data["n"])
				body := map[string]any{"data": map[string]any{"n": strconv.Itoa(n + 1)},
					"metadata": map[string]any{"resourceVersion": now.ResourceVersion}}
				err := c.Patch(t.Context(), configMaps, k, kube.MergePatch, body, nil, kube.WriteOptions{})
				switch {
				case err == nil:
					return
				case !kube.IsConflict(err):
					t.Error(err)
					return
				}
				conflicts[worker]++ // it comes back to the caller, who reads again; the client does not overwrite
			}
		}
		for worker := range workers {
			running.Go(func() {
				for range each {
					increment(worker)
				}
			})
		}
		running.Wait()
		var end configMap
		if err := c.Get(t.Context(), configMaps, k, &end); err != nil || end.Data["n"] != strconv.Itoa(workers*each) {
			t.Errorf("the counter is at %s, %v; want %d", end.Data["n"], err, workers*each)
		}
		sum := 0
		for _, n := range conflicts {
			sum += n
		}
		if sum == 0 {
			t.Error("nobody met a conflict: this shows nothing")
		}
	})
}

// Rules: LST-16
func TestAnExactVersionThatIsGoneAndOneThatIsNotThereYetAreDifferentErrors(t *testing.T) {
	inWorld(t, apiserver.Options{HistoryEvents: 5}, func(t *testing.T, c *kube.Client) {
		first := create(t, c, "first")
		var last *configMap
		for i := range 20 {
			last = create(t, c, "more-"+strconv.Itoa(i))
		}
		exactly := func(rv string) error {
			_, err := kube.List[*configMap](t.Context(), c, kube.Query{Resource: configMaps},
				kube.ListOptions{ResourceVersion: rv, ResourceVersionMatch: "Exact"})
			return err
		}
		if err := exactly(last.ResourceVersion); err != nil {
			t.Error("the present version:", err)
		}
		time.Sleep(10 * time.Minute) // virtual: the first version is compacted
		if err := exactly(first.ResourceVersion); !kube.IsGone(err) || kube.IsTooLargeResourceVersion(err) {
			t.Errorf("a version that is gone: %v, want it to be Gone", err)
		}
		if err := exactly(last.ResourceVersion + "000"); !kube.IsTooLargeResourceVersion(err) || kube.IsGone(err) {
			t.Errorf("a version of the future: %v, want it to be too large", err)
		}
	})
}

// Rules: ERR-07
func TestANotFoundSaysWhetherTheNamespaceIsMissing(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}
		err := c.Create(t.Context(), configMaps, "nowhere", body, nil, kube.WriteOptions{})
		if s := kube.AsStatus(err); !kube.IsNotFound(err) || s.Details.Kind != "namespaces" ||
			s.Details.Name != "nowhere" {
			t.Errorf(
				"created in a namespace that is missing: %v, want namespaces nowhere to be what is not found", err)
		}
		err = c.Patch(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "a"}, kube.MergePatch, struct{}{},
			nil, kube.WriteOptions{})
		if s := kube.AsStatus(err); !kube.IsNotFound(err) || s.Details.Kind != "configmaps" || s.Details.Name != "a" {
			t.Errorf("patched an object that is missing: %v, want configmaps a to be what is not found", err)
		}
	})
}

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

// Rules: LST-23
func TestASelectorReachesTheServerAsItIsWritten(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		for name, labels := range map[string]map[string]string{
			"a": {"app": "web", "example.com/part-of": "shop"}, "b": {"app": "db-1", "tier": ""},
			"c": {"tier": "v1.2_3"},
		} {
			body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": name, "labels": labels}}
			if err := c.Create(t.Context(), configMaps, "default", body, nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for selectors, want := range map[[2]string]string{
			{"app=web"}: "a", {"app==web"}: "a", {"app!=web"}: "b c", {"app in (web,db-1)"}: "a b",
			{"tier notin (,x)"}: "a c", {"tier"}: "b c", {"!tier"}: "a", {"tier="}: "b", {"app,tier"}: "b",
			{"example.com/part-of=shop"}: "a", {"tier=v1.2_3,!app"}: "c", {"", "metadata.name!=b"}: "a c",
			{"app", "metadata.name=b,metadata.namespace=default"}: "b",
		} {
			q := kube.Query{Resource: configMaps, Namespace: "default", LabelSelector: selectors[0],
				FieldSelector: selectors[1]}
			list, err := kube.List[*configMap](t.Context(), c, q, kube.ListOptions{})
			var got []string
			for _, m := range list.Items {
				got = append(got, m.Name)
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("%q: got %v, %v, want %s", selectors, got, err, want)
			}
		}
	})
}

// metadata is an object as Query.Metadata has it; the data are declared to see that none comes.
type metadata struct {
	kube.MetaAnnotated `json:"metadata"`
	Data               map[string]string `json:"data"`
}

func TestAListOfTheMetadataHasNoValues(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		for _, name := range []string{"a", "b", "c"} {
			create(t, c, name)
		}
		list, err := kube.List[*metadata](t.Context(), c, kube.Query{Resource: configMaps, Metadata: true},
			kube.ListOptions{Limit: 2})
		if err != nil || len(list.Bad) > 0 || len(list.Items) != 3 {
			t.Fatal(err, list.Bad, len(list.Items))
		}
		for i, o := range list.Items {
			if o.Name != string(rune('a'+i)) || o.Namespace != "default" || len(o.Data) > 0 {
				t.Errorf("object %d is %+v", i, o)
			}
		}
	})
}
