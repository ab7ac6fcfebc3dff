// Package uninstall removes skiff's custom resources and their definitions from a cluster, also where no skiff runs
// any more that would remove the finalizers which hold them back.
//
// Look finds what there is, Do removes it and waits until it is gone. Which resources there are is the caller's to
// say, as is the text that a user reads. It stops no skiff and deletes no children: the garbage collector
// of the cluster does, and an object stays until its children are gone. Everything runs on the caller's goroutine; it
// is on no event path.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
)

// Options say what to remove.
type Options struct {
	Client          *kube.Client
	Resources       []kube.Resource // the custom resources
	Namespace       string          // only the objects of this one, and no definitions; "": all
	KeepDefinitions bool
	KeepChildren    bool              // the objects that the custom resources own stay, without an owner
	Did             func(what string) // is called with each thing that was done
}

// Found is what there is of one custom resource.
type Found struct {
	Resource   kube.Resource
	Installed  bool // the server has the resource
	Definition bool // the CRD is to be deleted
	Objects    []Object
}

// Object is a custom resource that is to be deleted.
type Object struct {
	Key      kube.Key
	UID      string
	Version  string
	Deleting bool     // it waits for finalizers already
	Ours     []string // finalizers that skiff sets, and removes when it runs
	Others   []string // finalizers that another controller has to remove
	// Collecting are finalizers of the garbage collector, which removes them once what the object owns is gone.
	Collecting []string
}

// ownFinalizer begins the finalizers that skiff sets.
const ownFinalizer = "skiff.dev/"

// collectorFinalizers are those with which the garbage collector keeps an object until it has dealt with what that one
// owns.
var collectorFinalizers = []string{"foregroundDeletion", "orphan"}

// pollEvery is how often it is looked whether what was deleted is gone.
const pollEvery = 500 * time.Millisecond

// item is what is read of a custom resource or a CRD.
type item struct {
	kube.Meta `json:"metadata"`
}

// Look returns what there is, one Found for each resource.
func Look(ctx context.Context, o Options) ([]Found, error) {
	var out []Found
	for _, r := range o.Resources {
		f := Found{Resource: r, Installed: true}
		var err error
		if f.Objects, err = objects(ctx, o, r); kube.IsNotFound(err) {
			f.Installed, err = false, nil
		}
		if err != nil {
			return nil, err
		}
		if o.Namespace == "" && !o.KeepDefinitions {
			var d item
			switch err := o.Client.Get(ctx, definitions.Resource, kube.Key{Name: r.GroupResource()}, &d); {
			case err == nil:
				f.Definition = true
			case !kube.IsNotFound(err):
				return nil, err
			}
		}
		out = append(out, f)
	}
	return out, nil
}

func objects(ctx context.Context, o Options, r kube.Resource) ([]Object, error) {
	list, err := kube.List[*item](ctx, o.Client, kube.Query{Resource: r, Namespace: o.Namespace}, kube.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []Object
	for _, i := range list.Items {
		one := Object{Key: i.Key(), UID: i.UID, Version: i.ResourceVersion, Deleting: i.Deleting()}
		for _, f := range i.Finalizers {
			switch {
			case strings.HasPrefix(f, ownFinalizer):
				one.Ours = append(one.Ours, f)
			case slices.Contains(collectorFinalizers, f):
				one.Collecting = append(one.Collecting, f)
			default:
				one.Others = append(one.Others, f)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// Do removes what Look finds: our finalizers, then the objects, and when these are gone their definitions. It returns
// when all is gone. The error of one that does not go says what it waits for; ctx bounds the wait.
func Do(ctx context.Context, o Options) error {
	deleted := map[string]bool{} // by uid: those that were asked to go
	var before []Found
	for {
		found, err := Look(ctx, o)
		if ctx.Err() != nil && before != nil {
			return fmt.Errorf("%w: %s", context.Cause(ctx), waiting(before))
		}
		if err != nil {
			return err
		}
		gone := map[string]error{} // by namespace: it does not exist
		for _, f := range found {
			for _, one := range f.Objects {
				err := o.remove(ctx, f.Resource, one, deleted)
				if noNamespace(err) {
					gone[one.Key.Namespace] = fmt.Errorf("%w, and without it the server changes nothing in it: run "+
						"`kubectl create namespace %s`, and then this again", err, one.Key.Namespace)
				} else if err != nil {
					return err
				}
			}
		}
		left, stuck := 0, error(nil)
		for _, f := range found {
			for _, one := range f.Objects {
				if err := gone[one.Key.Namespace]; err != nil {
					stuck = err
				} else {
					left++
				}
			}
		}
		switch {
		case left == 0 && stuck != nil: // nothing else is left
			return stuck
		case left == 0:
			return o.definitions(ctx, found)
		}
		before = found
		pause(ctx)
	}
}

// remove takes our finalizers off an object and deletes it. Another one of its name that is made meanwhile is another
// object, and the next look finds it. A skiff that still runs may set its finalizer again until the object is deleted.
func (o Options) remove(ctx context.Context, r kube.Resource, one Object, deleted map[string]bool) error {
	name := r.GroupResource() + " " + one.Key.String()
	if len(one.Ours) > 0 {
		patch := map[string]any{"metadata": map[string]any{"uid": one.UID, "resourceVersion": one.Version,
			"finalizers": slices.Concat(one.Others, one.Collecting)}}
		err := o.Client.Patch(ctx, r, one.Key, kube.MergePatch, patch, nil, kube.WriteOptions{FieldManager: "skiff"})
		if kube.IsConflict(err) || kube.IsNotFound(err) && !noNamespace(err) {
			return nil // it has changed, or is gone: the next look shows it
		}
		if err != nil {
			return err
		}
		o.Did("removed the finalizer " + strings.Join(one.Ours, ", ") + " of " + name)
	}
	if one.Deleting || deleted[one.UID] {
		return nil
	}
	// Not in the background: without its definition, the garbage collector cannot find out any more that an owner is
	// gone, and leaves what it has not come to for ever (seen on v1.36 within 30 s after the definition was made).
	policy := kube.Foreground
	if o.KeepChildren {
		policy = kube.Orphan
	}
	err := o.Client.Delete(ctx, r, one.Key, kube.DeleteOptions{UID: one.UID, Propagation: policy})
	if kube.IsConflict(err) || kube.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	deleted[one.UID] = true
	o.Did("deleted " + name)
	return nil
}

// noNamespace reports whether a write was refused because the namespace of its object does not exist. The namespace
// controller overlooks objects of a CRD that was made again shortly before: they outlive their namespace (seen on
// v1.36).
func noNamespace(err error) bool {
	status, ok := errors.AsType[*kube.Status](err)
	return ok && kube.IsNotFound(err) && status.Details.Kind == "namespaces"
}

// definitions deletes the CRDs and waits until they are gone.
func (o Options) definitions(ctx context.Context, found []Found) error {
	for _, f := range found {
		if !f.Definition {
			continue
		}
		name := f.Resource.GroupResource()
		err := o.Client.Delete(ctx, definitions.Resource, kube.Key{Name: name}, kube.DeleteOptions{})
		if err != nil && !kube.IsNotFound(err) {
			return err
		}
		o.Did("deleted the definition " + name)
	}
	last := ""
	for {
		again, err := Look(ctx, o)
		if ctx.Err() != nil && last != "" {
			return fmt.Errorf("%w: the server is still deleting the definition %s", context.Cause(ctx), last)
		}
		if err != nil {
			return err
		}
		i := slices.IndexFunc(again, func(f Found) bool { return f.Definition })
		if i < 0 {
			return nil
		}
		last = again[i].Resource.GroupResource()
		pause(ctx)
	}
}

// waiting says what the first of the objects that do not go waits for.
func waiting(found []Found) string {
	i := slices.IndexFunc(found, func(f Found) bool { return len(f.Objects) > 0 })
	if i < 0 {
		return ""
	}
	one := found[i].Objects[0]
	name := found[i].Resource.GroupResource() + " " + one.Key.String()
	if len(one.Others) > 0 {
		return name + " waits for its finalizer " + kube.Text(strings.Join(one.Others, ", ")) +
			", which is not skiff's; the controller that set it has to remove it"
	}
	if len(one.Collecting) > 0 {
		return name + " waits until the garbage collector of the cluster has dealt with what it owns; does " +
			"kube-controller-manager run, and do these objects have finalizers?"
	}
	return name + " is still there; stop skiff if it still runs, and look for a client that creates it again"
}

// pause waits until it is worth another look, or ctx ends.
func pause(ctx context.Context) {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
