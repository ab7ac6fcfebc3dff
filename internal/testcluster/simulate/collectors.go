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

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// collectors runs a garbage collector for the resources of the server, and replaces the collector when CRDs are added
// or removed.
type collectors struct {
	*shared
	record  recordFunc
	crds    *cache.Store[*anyObject]
	changed chan struct{} // buffers a signal: the CRDs have changed
	paused  atomic.Bool

	mu      sync.Mutex             // guards current
	current *controller.Controller // nil until discovery is done
}

func newCollectors(s *shared) *collectors {
	g := &collectors{shared: s, crds: cache.New[*anyObject](s.all(crdResource)),
		record: s.recorder("garbage-collector-controller"), changed: make(chan struct{}, 1)}
	g.crds.OnChange(func(cache.Change[*anyObject]) {
		select {
		case g.changed <- struct{}{}:
		default:
		}
	})
	return g
}

// Ready returns nil once the current collector has synced.
func (c *collectors) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return errors.New("simulate-gc: resources are not known yet")
	}
	return c.current.Ready()
}

// Run keeps a collector running until ctx is done.
func (c *collectors) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // also after an error
	running.Go(func() { c.crds.Run(ctx) })
	resources, ok := c.others(ctx, nil)
	for ok {
		collecting, stop := context.WithCancel(ctx)
		g := newCollector(c, resources)
		c.mu.Lock()
		c.current = g
		c.mu.Unlock()
		ended := make(chan error, 1)
		running.Go(func() {
			defer stop()
			ended <- g.Run(collecting)
		})
		resources, ok = c.others(collecting, resources)
		stop()
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// discoveryRetry is the time between attempts to read the discovery documents of a server just started.
const discoveryRetry = time.Second

// others waits until the server serves other resources than before, and returns false if ctx is done first: the
// context of Run, or of the current collector.
func (c *collectors) others(ctx context.Context, these []kube.Resource) ([]kube.Resource, bool) {
	for {
		now, err := c.discover(ctx)
		if err == nil && !slices.Equal(now, these) {
			return now, true
		}
		var retry <-chan time.Time
		if err != nil && ctx.Err() == nil {
			c.Log.Error(err, "the resources to collect are not known: retrying")
			retry = time.After(discoveryRetry)
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-c.changed:
		case <-retry:
		}
	}
}

// discover returns the resources that can be collected, each in the server's preferred version.
func (s *shared) discover(ctx context.Context) ([]kube.Resource, error) {
	if s.Collected != nil {
		return s.Collected, nil
	}
	var groups struct {
		Groups []struct {
			Versions []struct{ GroupVersion string } // the preferred version first
		}
	}
	if err := s.get(ctx, "/apis", &groups); err != nil {
		return nil, err
	}
	versions := []string{"v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions = append(versions, v.GroupVersion)
		}
	}
	var out []kube.Resource
	for _, v := range versions {
		served, err := s.collectable(ctx, v)
		if kube.IsNotFound(err) {
			continue // the CRD has been deleted just now; the event is on the way
		}
		if err != nil {
			return nil, err
		}
		for _, r := range served {
			if !slices.ContainsFunc(out, func(o kube.Resource) bool { return o.String() == r.String() }) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// collectable returns the resources of a group version that can be listed, watched and deleted, except Events: there
// are many, and they neither own objects nor are owned.
func (s *shared) collectable(ctx context.Context, apiVersion string) ([]kube.Resource, error) {
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
			Verbs      []string
		}
	}
	group, version := groupVersion(apiVersion)
	if err := s.get(ctx, kube.Resource{Group: group, Version: version}.Root(), &list); err != nil {
		return nil, err
	}
	var out []kube.Resource
	for _, r := range list.Resources {
		can := func(verb string) bool { return slices.Contains(r.Verbs, verb) }
		if strings.Contains(r.Name, "/") || r.Name == "events" || !can("list") || !can("watch") || !can("delete") {
			continue
		}
		out = append(out, kube.Resource{Group: group, Version: version, Plural: r.Name, Kind: r.Kind,
			ClusterScoped: !r.Namespaced})
	}
	return out, nil
}

// groupVersion takes an apiVersion apart.
func groupVersion(apiVersion string) (group, version string) {
	if group, version, named := strings.Cut(apiVersion, "/"); named {
		return group, version
	}
	return "", apiVersion
}

// get reads a JSON document of the server, such as discovery.
func (s *shared) get(ctx context.Context, path string, into any) error {
	b, err := s.client.Raw(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read %s: %s", path, err)
	}
	return nil
}
