package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Load creates, changes and deletes WebServers in one namespace, and knows what has to be there in the end. A request
// that fails because the server is away is sent again until its outcome is known.
type Load struct {
	api        *API
	namespace  string
	collection string
	rng        *rand.Rand

	mu    sync.Mutex
	want  map[string]wanted // guarded by mu; what exists after all requests so far
	steps int               // guarded by mu
}

// wanted is what a WebServer should have become.
type wanted struct {
	image    string
	replicas int
}

// NewLoad makes a load; seed decides the sequence.
func NewLoad(api *API, namespace string, seed uint64) *Load {
	return &Load{
		api: api, namespace: namespace, collection: "/apis/skiff.dev/v1alpha1/namespaces/" + namespace + "/webservers",
		rng: rand.New(rand.NewPCG(seed, 0)), want: map[string]wanted{},
	}
}

// Steps is how many changes were made so far.
func (l *Load) Steps() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.steps
}

// Want is a copy of what should exist.
func (l *Load) Want() map[string]wanted {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]wanted, len(l.want))
	for name, w := range l.want {
		out[name] = w
	}
	return out
}

// Run makes changes, some ten in a second, until ctx ends. A change that was begun is seen through.
func (l *Load) Run(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.change(); err != nil {
			return err
		}
	}
}

// change makes one random change: two of ten delete, four scale, four change the image; a name that is free is
// created. Names are few, so that an object is also deleted and made again under its old name, but only after its
// children are gone: when the controller manager misses a deletion and meets the name again with another uid, its
// garbage collector never finds out that the old owner is gone, and the children stay for ever. That is Kubernetes'
// business and not what is tested here.
func (l *Load) change() error {
	name := fmt.Sprintf("load-%d", l.rng.IntN(25))
	path := l.collection + "/" + name
	w, exists := l.Want()[name]
	deleted, err := false, error(nil)
	switch dice := l.rng.IntN(10); {
	case !exists && l.occupied(name):
		return nil
	case !exists:
		w = wanted{image: l.image(), replicas: l.rng.IntN(3)}
		err = insist(http.StatusConflict, func(ctx context.Context) error {
			_, err := l.api.Create(ctx, l.collection, WebServerObject(name, w.image, w.replicas))
			return err
		})
	case dice < 2:
		deleted = true
		err = insist(http.StatusNotFound, func(ctx context.Context) error { return l.api.Delete(ctx, path) })
	case dice < 6:
		w.replicas = l.rng.IntN(3)
		err = l.patch(path, Object{"replicas": w.replicas})
	default:
		w.image = l.image()
		err = l.patch(path, Object{"image": w.image})
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps++
	if deleted {
		delete(l.want, name)
	} else {
		l.want[name] = w
	}
	return nil
}

// occupied reports whether a child of an earlier object of that name is still there, or may be.
func (l *Load) occupied(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for _, child := range []string{"/apis/apps/v1/namespaces/" + l.namespace + "/deployments/" + name,
		"/api/v1/namespaces/" + l.namespace + "/services/" + name + "-service"} {
		if _, err := l.api.Get(ctx, child); !IsCode(err, http.StatusNotFound) {
			return true
		}
	}
	return false
}

func (l *Load) patch(path string, spec Object) error {
	return insist(0, func(ctx context.Context) error {
		_, err := l.api.Merge(ctx, path, Object{"spec": spec})
		return err
	})
}

func (l *Load) image() string { return fmt.Sprintf("nginx:1.%d", l.rng.IntN(5)) }

// WebServerObject is a WebServer as JSON.
func WebServerObject(name, image string, replicas int) Object {
	return Object{
		"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer", "metadata": Object{"name": name},
		"spec": Object{"image": image, "replicas": replicas},
	}
}

// insist repeats a request until the server answered it. After a broken connection the request may have been carried
// out already; doneCode is the answer that says so.
func insist(doneCode int, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for attempt := 1; ; attempt++ {
		err := send(ctx)
		var status *StatusError
		switch {
		case err == nil, attempt > 1 && IsCode(err, doneCode):
			return nil
		case errors.As(err, &status) && status.Code < 500 && status.Code != http.StatusTooManyRequests:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer within %s: %w", startLimit, err)
		case <-tick.C:
		}
	}
}
