package manager

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

func TestWhatIsNotHeldInMemoryIsNamedInReadyzAndCountedInMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, user := newServer(t)
		pipe := api.ListenPipe()
		client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); pipe.Close() })
		large := func(namespace, name string, kib int) {
			create(t, user, configMaps, namespace, map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": name}, "data": map[string]any{"a": strings.Repeat("x", kib<<10)}})
		}
		large("default", "one", 1)
		large("default", "huge", 100)
		for _, name := range []string{"a", "b", "c", "d"} {
			large("kube-system", name, 40)
		}
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client, MaxBytes: 120 << 10,
			MaxObjectBytes: 64 << 10})
		c := controller.New("maps", nothing, controller.Options{}, controller.For(store))
		all := runAll(t, Options{Controllers: []*controller.Controller{c}, Client: client})
		time.Sleep(time.Minute)
		expectText(t, "/readyz?verbose", all.health.verbose(),
			"    ! over budget: namespace kube-system: 4 of its configmaps not worked on: ",
			"; the largest is a with 41 KiB",
			"; delete some or make them smaller",
			"    ! too large: namespace default: 1 of its configmaps not worked on: ConfigMap default/huge takes ",
			"make it smaller")
		s := all.metrics.samples()
		of := `{resource="configmaps",selector="",namespace="`
		expect(t, "objects over budget", s["skiff_shed_objects"+of+`kube-system"}`], 4)
		expect(t, "objects that are too large", s["skiff_shed_objects"+of+`default"}`], 1)
		for _, namespace := range []string{"default", "kube-system"} {
			if bytes := s["skiff_shed_bytes"+of+namespace+`"}`]; bytes < 100<<10 || bytes > 400<<10 {
				t.Errorf("bytes of %s: %v", namespace, bytes)
			}
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			if err := user.Delete(t.Context(), configMaps, kube.Key{Namespace: "kube-system", Name: name},
				kube.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		if body := all.health.verbose(); strings.Contains(body, "kube-system") {
			t.Errorf("when they are gone: %s", body)
		}
		if n, ok := all.metrics.samples()["skiff_shed_objects"+of+`kube-system"}`]; ok {
			t.Errorf("when they are gone: %v objects", n)
		}
		expect(t, "stop", all.stop(), nil)
	})
}
