package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/go-logr/logr"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// Greeting is the custom resource: one ConfigMap holds its text.
type Greeting = operator.Object[GreetingSpec, GreetingStatus]

type GreetingSpec struct {
	Text string `json:"text"`
}

type GreetingStatus struct {
	operator.Common
}

var greetings = kube.Resource{Group: "example.com", Version: "v1", Plural: "greetings", Kind: "Greeting"}

var greeting = operator.Definition[*Greeting, GreetingStatus]{
	Name:     "greeting",
	Resource: greetings,
	Children: []operator.Kind{operator.Owns[*apply.Live[struct{}]](configMaps)},
	Desired: func(g *Greeting) ([]operator.Child, error) {
		if g.Spec.Text == "" {
			return nil, errors.New("spec.text: must not be empty")
		}
		return []operator.Child{{Resource: configMaps, Name: g.Name,
			Body: map[string]any{"data": map[string]any{"text": g.Spec.Text}}}}, nil
	},
	Observe: func(g *Greeting, seen operator.Seen, _ health.Problem) (GreetingStatus, conditions.Set) {
		progress := conditions.Progress{Problem: health.Problem{Reason: "Missing", Public: "there is no ConfigMap"}}
		if operator.Find[struct{}](seen, configMaps, g.Name) != nil {
			progress = conditions.Progress{Done: true,
				Problem: health.Problem{Reason: "Written", Public: "the text is in the ConfigMap"}}
		}
		return GreetingStatus{}, progress.Set()
	},
}

// A user creates a Greeting, and the operator creates the ConfigMap and writes the status.
func ExampleNew() {
	api := apiserver.New(apiserver.Options{})
	defer api.Close()
	pipe := api.ListenPipe()
	defer pipe.Close()
	client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	create(client, definitions, "", greetingDefinition)
	wait(client, definitions, "Established")

	c := operator.New(controller.Setup{Client: client, Log: logr.Discard()}, nil, greeting)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			log.Print(err)
		}
	})
	create(client, greetings, "default", `{"apiVersion": "example.com/v1", "kind": "Greeting",
		"metadata": {"name": "hello"}, "spec": {"text": "Hello!"}}`)
	ready := wait(client, greetings, conditions.Ready)
	fmt.Println(ready.Type, ready.Status, ready.Reason+":", ready.Message)
	fmt.Println(api.Get(configMaps, kube.Key{Namespace: "default", Name: "hello"})["data"])
	stop()
	running.Wait()
	// Output:
	// Ready True Written: the text is in the ConfigMap
	// map[text:Hello!]
}

var definitions = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

const greetingDefinition = `{"metadata": {"name": "greetings.example.com"}, "spec": {
	"group": "example.com", "scope": "Namespaced", "names": {"kind": "Greeting", "plural": "greetings"},
	"versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
		"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`

func create(client *kube.Client, r kube.Resource, namespace, object string) {
	err := client.Create(context.Background(), r, namespace, kube.Raw(object), nil, kube.WriteOptions{})
	if err != nil {
		log.Fatal(err)
	}
}

// wait watches a resource until an object has the condition, and returns the condition.
func wait(client *kube.Client, r kube.Resource, condition string) conditions.Condition {
	stream, err := kube.Watch[*operator.Object[struct{}, operator.Common]](context.Background(), client,
		kube.Query{Resource: r}, kube.WatchOptions{SendInitialEvents: true})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for {
		event, err := stream.Next()
		if err != nil {
			log.Fatal(err)
		}
		if event.Object == nil { // a bookmark
			continue
		}
		if c, _ := conditions.Get(event.Object.Status.Conditions, condition); c.Status == conditions.True {
			return c
		}
	}
}
