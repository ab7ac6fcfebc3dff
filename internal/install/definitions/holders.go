package definitions

import (
	"context"
	"fmt"
	"strings"

	"skiff/internal/runtime/kube"
)

const (
	// maxHolders is how many of the objects that hold a definition are named.
	maxHolders = 5
	// cleanup is the finalizer of the API server itself: it stays until no object of the kind is left.
	cleanup = "customresourcecleanup.apiextensions.k8s.io"
	// maxHolder bounds how much of finalizers is printed: the API server takes names of any number.
	maxHolder = 200
)

// instance is what is read of an object of a definition that is being deleted.
type instance struct {
	kube.Meta `json:"metadata"`
}

// holders says what keeps a definition that is being deleted.
func holders(ctx context.Context, c *kube.Client, d Definition) string {
	var live crdState
	if err := c.Get(ctx, resource, kube.Key{Name: d.Name}, &live); err != nil {
		return "what holds it is not known: " + kube.Explain(err)
	}
	var held []string
	for _, f := range live.Finalizers {
		if f != cleanup {
			held = append(held, "its finalizer "+kube.Printable(f, maxHolder))
		}
	}
	list, err := kube.List[*instance](ctx, c, kube.Query{Resource: d.Defines}, kube.ListOptions{})
	if err != nil {
		held = append(held, "objects that cannot be listed ("+kube.Explain(err)+")")
		list = kube.ListResult[*instance]{}
	}
	for i, o := range list.Items {
		if i == maxHolders {
			held = append(held, fmt.Sprintf("%d more", len(list.Items)-i))
			break
		}
		text := d.Defines.Kind + " " + o.Key().String()
		if len(o.Finalizers) > 0 {
			text += " (finalizer " + kube.Printable(strings.Join(o.Finalizers, ", "), maxHolder) + ")"
		}
		held = append(held, text)
	}
	if len(held) == 0 {
		return "nothing holds it any more"
	}
	return "held by " + strings.Join(held, ", ")
}
