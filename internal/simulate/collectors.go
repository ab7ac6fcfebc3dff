package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/kube"
)

// crd is the part of a CustomResourceDefinition that the collectors read.
type crd struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name    string `json:"name"`
			Served  bool   `json:"served"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// resource returns the resource that the CRD defines, false while the server does not serve it.
func (d *crd) resource() (kube.Resource, bool) {
	established := false
	for _, c := range d.Status.Conditions {
		established = established || c.Type == "Established" && c.Status == "True"
	}
	for _, v := range d.Spec.Versions {
		if established && v.Served && !d.Deleting() {
			return kube.Resource{Group: d.Spec.Group, Version: v.Name,
				Plural: d.Spec.Names.Plural, Kind: d.Spec.Names.Kind,
				ClusterScoped: d.Spec.Scope == "Cluster"}, true
		}
	}
	return kube.Resource{}, false
}

// collectors runs a garbage collector for the resources that the server serves, and replaces it when CRDs are added or
// removed.
type collectors struct {
	client  *kube.Client
	o       Options
	record  recordFunc
	mirror  *cache.Store[*crd]
	changed chan struct{} // buffers one signal: the CRDs have changed
	paused  atomic.Bool

	mu      sync.Mutex             // guards current
	current *controller.Controller // nil until discovery is done
}

func newCollectors(c *kube.Client, o Options) *collectors {
	g := &collectors{client: c, o: o, mirror: cache.New[*crd](o.mirror(c, crdResource)),
		record: o.recorder(c, "garbage-collector-controller"), changed: make(chan struct{}, 1)}
	g.mirror.OnChange(func(cache.Change[*crd]) {
		select {
		case g.changed <- struct{}{}:
		default:
		}
	})
	return g
}

func (c *collectors) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return errors.New("simulate-gc: resources are not known yet")
	}
	return c.current.Ready()
}

// run keeps a collector running until ctx is done.
func (c *collectors) run(ctx context.Context) error {
	var mirroring sync.WaitGroup
	mirroring.Go(func() { c.mirror.Run(ctx) })
	err := c.supervise(ctx)
	mirroring.Wait()
	return err
}

func (c *collectors) supervise(ctx context.Context) error {
	builtin, ok := c.discover(ctx)
	if !ok || c.mirror.WaitSynced(ctx) != nil {
		return nil
	}
	for {
		resources, err := c.withCustom(builtin)
		if err != nil {
			return err
		}
		collecting, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		var runErr error
		g := newCollector(c.client, c.o, resources, &c.paused, c.record)
		c.mu.Lock()
		c.current = g
		c.mu.Unlock()
		done.Go(func() {
			defer stop()
			runErr = g.Run(collecting)
		})
		err = c.waitForOthers(collecting, builtin, resources)
		stop()
		done.Wait()
		if err := errors.Join(err, runErr); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// waitForOthers waits until the server serves other resources than these, or ctx is done: that of run, or that of the
// current collector.
func (c *collectors) waitForOthers(ctx context.Context, builtin, these []kube.Resource) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		}
		now, err := c.withCustom(builtin)
		if err != nil || !slices.Equal(now, these) {
			return err
		}
	}
}

// withCustom returns the built-in resources and those that CRDs define.
func (c *collectors) withCustom(builtin []kube.Resource) ([]kube.Resource, error) {
	crds, err := c.mirror.List("")
	if err != nil {
		return nil, err
	}
	out := slices.Clone(builtin)
	for _, d := range crds {
		out = slices.DeleteFunc(out, func(r kube.Resource) bool {
			return r.Group == d.Spec.Group &&
				r.Plural == d.Spec.Names.Plural
		})
		if r, ok := d.resource(); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// discoveryRetry is the time between attempts to read the discovery documents of a server that has just started.
const discoveryRetry = time.Second

// discover reads the discovery documents, with retries. It returns false if ctx is done before that.
func (c *collectors) discover(ctx context.Context) ([]kube.Resource, bool) {
	for {
		out, err := discover(ctx, c.client)
		if err == nil {
			return out, true
		}
		if ctx.Err() == nil {
			c.o.Log.Error(err, "garbage collection cannot start yet: retrying")
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-time.After(discoveryRetry):
		}
	}
}

// discover returns the resources that can be collected, in the preferred version of each group.
func discover(ctx context.Context, c *kube.Client) ([]kube.Resource, error) {
	var groups struct {
		Groups []struct {
			PreferredVersion struct{ GroupVersion string }
		}
	}
	if err := getJSON(ctx, c, "/apis", &groups); err != nil {
		return nil, err
	}
	out, err := collectable(ctx, c, "/api/v1", "v1")
	if err != nil {
		return nil, err
	}
	for _, g := range groups.Groups {
		version := g.PreferredVersion.GroupVersion
		more, err := collectable(ctx, c, "/apis/"+version, version)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// collectable returns the resources of one group version that can be listed, watched and deleted, except Events: there
// are many, and they neither own objects nor are owned.
func collectable(ctx context.Context, c *kube.Client, path, version string) ([]kube.Resource, error) {
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
			Verbs      []string
		}
	}
	if err := getJSON(ctx, c, path, &list); err != nil {
		return nil, err
	}
	group, v, found := strings.Cut(version, "/")
	if !found {
		group, v = "", version
	}
	var out []kube.Resource
	for _, r := range list.Resources {
		can := func(verb string) bool { return slices.Contains(r.Verbs, verb) }
		if strings.Contains(r.Name, "/") || r.Name == "events" || !can("list") || !can("watch") || !can("delete") {
			continue
		}
		out = append(out, kube.Resource{Group: group, Version: v, Plural: r.Name, Kind: r.Kind,
			ClusterScoped: !r.Namespaced})
	}
	return out, nil
}

func getJSON(ctx context.Context, c *kube.Client, path string, into any) error {
	b, err := c.Raw(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
