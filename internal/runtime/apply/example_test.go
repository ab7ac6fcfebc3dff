package apply_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}

// The engine creates, changes, leaves alone and deletes a ConfigMap, as four declarations of an owner want.
func ExampleEngine_Apply() {
	api, client, end := testServer()
	defer end()

	// The engine reads children from a mirror.
	mirror := cache.New[*apply.Live[struct{}]](cache.Options{Resource: configMaps,
		LabelSelector: apply.ManagedBySelector, Client: client, Log: logr.Discard()})
	synced := make(chan struct{})
	mirror.OnServes(sync.OnceFunc(func() { close(synced) }))
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { mirror.Run(ctx) })
	defer func() {
		stop()
		running.Wait()
	}()
	<-synced
	engine := apply.New(client, apply.Own(), apply.Of(mirror, apply.InPlace))

	// An owner is of any kind.
	var object apply.Live[struct{}]
	if err := client.Create(ctx, configMaps, "default", kube.Raw(`{"metadata":{"name":"owner"}}`), &object,
		kube.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	owner := apply.OwnerOf(configMaps, &object)
	greeting := func(text string) apply.Child {
		return apply.Child{Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "greeting", "namespace": "default",
				"labels":          map[string]any{apply.ManagedByLabel: apply.ManagedBy},
				"ownerReferences": []any{owner.Reference()}},
			"data": map[string]any{"text": text}}}
	}

	for _, want := range [][]apply.Child{{greeting("hello")}, {greeting("goodbye")}, {greeting("goodbye")}, {}} {
		report := engine.Apply(ctx, owner, want, false)
		for _, child := range report.All() {
			fmt.Println(child.Resource.Kind, child.Key, child.Outcome, child.Differences, child.Err)
		}
		stored := api.Get(configMaps, kube.Key{Namespace: "default", Name: "greeting"})
		fmt.Println("  on the server:", stored["data"])
	}
	// Output:
	// ConfigMap default/greeting created [] <nil>
	//   on the server: map[text:hello]
	// ConfigMap default/greeting applied [data.text] <nil>
	//   on the server: map[text:goodbye]
	// ConfigMap default/greeting unchanged [] <nil>
	//   on the server: map[text:goodbye]
	// ConfigMap default/greeting deleted [] <nil>
	//   on the server: <nil>
}

// testServer returns an embedded API server and a client of it.
func testServer() (api *apiserver.Server, client *kube.Client, end func()) {
	api = apiserver.New(apiserver.Options{})
	pipe := api.ListenPipe()
	client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, UserAgent: "example"})
	if err != nil {
		log.Fatal(err)
	}
	return api, client, func() {
		client.Close()
		if err := pipe.Close(); err != nil {
			log.Fatal(err)
		}
		api.Close()
	}
}
