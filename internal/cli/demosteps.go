package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gopkg.in/yaml.v3"

	"skiff/internal/kube"
)

// object is the body of a request.
type object = map[string]any

// demoActs are the tour.
func demoActs() []act {
	return []act{webAct(), redisAct(), restartAct()}
}

// demoKinds are the kinds of the examples that the tour applies.
var demoKinds = []kube.Resource{webServers, redises, triggers, deployments}

// apply creates the objects of a YAML text.
func apply(text string) func(context.Context, *kube.Client) error {
	return func(ctx context.Context, c *kube.Client) error {
		for d := yaml.NewDecoder(bytes.NewReader([]byte(text))); ; {
			var body object
			if err := d.Decode(&body); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			i := slices.IndexFunc(demoKinds, func(r kube.Resource) bool { return r.Kind == body["kind"] })
			if i < 0 {
				return fmt.Errorf("create %v: the tour does not know this kind", body["kind"])
			}
			if err := c.Create(ctx, demoKinds[i], demoNamespace, body, nil, kube.WriteOptions{}); err != nil {
				return err
			}
		}
	}
}

// merge patches an object, or a subresource of it where that is not empty.
func merge(r kube.Resource, name, subresource string, patch object) func(context.Context, *kube.Client) error {
	return func(ctx context.Context, c *kube.Client) error {
		return c.Patch(ctx, r, kube.Key{Namespace: demoNamespace, Name: name}, kube.MergePatch, patch, nil,
			kube.WriteOptions{Subresource: subresource})
	}
}

// remove deletes an object.
func remove(r kube.Resource, name string) func(context.Context, *kube.Client) error {
	return func(ctx context.Context, c *kube.Client) error {
		return c.Delete(ctx, r, kube.Key{Namespace: demoNamespace, Name: name}, kube.DeleteOptions{})
	}
}
