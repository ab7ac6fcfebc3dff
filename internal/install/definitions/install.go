package definitions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// Options are how to install.
type Options struct {
	Timeout time.Duration // until the server serves all; with Wait, also for the end of deletions
	Wait    bool          // for definitions that are being deleted to go, then install them
}

// ErrDeleting says that a definition is being deleted: the server takes changes of it, and removes it all the same.
var ErrDeleting = errors.New("it is being deleted")

// Ensure installs skiff's own definitions and waits until the server serves them, and for the end of deletions before.
func Ensure(ctx context.Context, c *kube.Client, timeout time.Duration) error {
	all, err := All()
	if err != nil {
		return err
	}
	return Install(ctx, c, all, Options{Timeout: timeout, Wait: true}, io.Discard)
}

// Install applies the definitions (server-side apply), writes whether each was created, updated or unchanged, and
// waits until all are established. Running it again changes nothing. It refuses to replace a definition where objects
// may be stored in a version that it does not have. Of one that is being deleted it writes what holds it, installs the
// others and returns ErrDeleting, unless it may wait.
func Install(ctx context.Context, c *kube.Client, all []Definition, o Options, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, tooLong(o.Timeout))
	defer cancel()
	for _, d := range all {
		if err := keepsStored(ctx, c, d); err != nil {
			return fmt.Errorf("install CRD %s: %w", d.Name, err)
		}
	}
	var going []Definition
	for _, d := range all {
		did, err := apply(ctx, c, d)
		if errors.Is(err, ErrDeleting) {
			going, err = append(going, d), nil
			did = "is being deleted; " + holders(ctx, c, d)
		}
		if err != nil {
			return fmt.Errorf("install CRD: %w", err)
		}
		fmt.Fprintf(out, "customresourcedefinition %s %s\n", d.Name, did)
	}
	if len(going) > 0 && !o.Wait {
		return ErrDeleting
	}
	for _, d := range going {
		did, err := installGone(ctx, c, d)
		if err != nil {
			return fmt.Errorf("install CRD: %w", err)
		}
		fmt.Fprintf(out, "customresourcedefinition %s %s\n", d.Name, did)
	}
	for _, d := range all {
		if err := WaitEstablished(ctx, c, d.Name); err != nil {
			return err
		}
	}
	return nil
}

// goingPoll is how often a definition that is being deleted is looked at: finalizers take seconds.
const goingPoll = time.Second

// installGone installs a definition as soon as the one that is being deleted has gone.
func installGone(ctx context.Context, c *kube.Client, d Definition) (did string, err error) {
	for {
		did, err = apply(ctx, c, d)
		if err == nil || !errors.Is(err, ErrDeleting) && ctx.Err() == nil {
			return did, err
		}
		select {
		case <-ctx.Done():
			var end tooLong
			if cause := context.Cause(ctx); !errors.As(cause, &end) {
				return "", fmt.Errorf("%s is being deleted: %w", d.Name, cause)
			}
			return "", fmt.Errorf("%s is still being deleted after %s: %s", d.Name, time.Duration(end),
				holders(context.WithoutCancel(ctx), c, d))
		case <-time.After(goingPoll):
		}
	}
}

// tooLong is the end of Options.Timeout.
type tooLong time.Duration

func (t tooLong) Error() string { return fmt.Sprintf("not established within %s", time.Duration(t)) }

// keepsStored fails where objects may be stored in a version that the definition does not have: the server could not
// read them any more.
func keepsStored(ctx context.Context, c *kube.Client, d Definition) error {
	var live State
	if err := c.Get(ctx, Resource, kube.Key{Name: d.Name}, &live); err != nil && !kube.IsNotFound(err) {
		return err
	}
	if stored := d.Unknown(live.Status); stored != "" {
		return fmt.Errorf("the cluster may have objects stored as %s, which this skiff does not define, so nothing "+
			"is changed; use a skiff that defines it, or migrate the objects and take it out of "+
			"status.storedVersions", stored)
	}
	return nil
}

// apply creates or updates a definition, and says which.
func apply(ctx context.Context, c *kube.Client, d Definition) (did string, err error) {
	key := kube.Key{Name: d.Name}
	var before, after State
	if err := c.Get(ctx, Resource, key, &before); err != nil && !kube.IsNotFound(err) {
		return "", err
	}
	if before.Deleting() {
		return "", ErrDeleting
	}
	// Force: this version decides the fields that it sets, also where an older skiff, kubectl or Helm wrote them last.
	if err := c.Patch(ctx, Resource, key, kube.ApplyPatch, d.Object, &after,
		kube.WriteOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return "", err
	}
	if after.Deleting() { // since it was read
		return "", ErrDeleting
	}
	switch before.ResourceVersion {
	case "":
		return "created", nil
	case after.ResourceVersion:
		return "unchanged", nil
	}
	return "updated", nil
}

// WaitEstablished waits until the server serves the resource that a CRD defines.
func WaitEstablished(ctx context.Context, c *kube.Client, name string) error {
	said := "it has no status yet"
	for {
		var crd State
		if err := c.Get(ctx, Resource, kube.Key{Name: name}, &crd); err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for CRD %s: %w", name, err)
		}
		for _, cond := range crd.Status.Conditions {
			switch {
			case cond.Type == "Established" && cond.Status == "True":
				return nil
			case cond.Type == "NamesAccepted" && cond.Status == "False":
				return fmt.Errorf("wait for CRD %s: the server does not accept its names: %s", name, cond.Message)
			case cond.Type == "Established":
				said = cond.Message
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for CRD %s: %w: %s", name, context.Cause(ctx), said)
		case <-time.After(200 * time.Millisecond): // a server usually takes less than a second
		}
	}
}

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
	var live State
	if err := c.Get(ctx, Resource, kube.Key{Name: d.Name}, &live); err != nil {
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
