package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tenantWorld is a control plane with an attacker, victims and skiff.
type tenantWorld struct {
	*limitedSkiff
	a        tenantAttack
	attacker string // namespaces
	victim   string
	stop     context.CancelFunc // of the flapping
	flapping sync.WaitGroup
	refused  atomic.Int64 // writes of the attacker
}

func newTenantWorld(t *testing.T, c *Cluster, a tenantAttack) *tenantWorld {
	name := namespaceName(strings.ReplaceAll(a.name, " ", ""))
	w := &tenantWorld{limitedSkiff: limited(t, c, name, "run"), a: a, attacker: "attacker-" + name,
		victim: "victim-" + name}
	for _, ns := range []string{w.attacker, w.victim} {
		if _, err := c.Admin.Create(t.Context(), "/api/v1/namespaces",
			Object{"metadata": Object{"name": ns}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(w.clean)
	return w
}

// clean removes what the next attack must not meet.
func (w *tenantWorld) clean() {
	if w.stop != nil {
		w.stop()
		w.flapping.Wait()
	}
	w.end()
	for _, ns := range []string{w.attacker, w.victim} {
		for _, all := range []string{w.path(ns, "webservers"), w.path(ns, "redis"), w.path(ns, "restarttriggers"),
			"/apis/apps/v1/namespaces/" + ns + "/deployments", "/api/v1/namespaces/" + ns + "/pods",
			"/api/v1/namespaces/" + ns + "/services"} {
			err := w.c.Admin.Delete(noContext, all)
			for s := new(StatusError); errors.As(err, &s) && s.Code == http.StatusGatewayTimeout; {
				err = w.c.Admin.Delete(noContext, all) // the rest of those that a minute was not enough for
			}
			if err != nil {
				w.Error(err)
			}
		}
		if err := w.release(ns); err != nil {
			w.Error(err)
		}
	}
}

// release takes the finalizers off, which no skiff does any more.
func (w *tenantWorld) release(ns string) error {
	held, err := w.c.Admin.Get(noContext, w.path(ns, "redis"))
	if err != nil {
		return err
	}
	var names []string
	for _, o := range held.List("items") {
		names = append(names, o.Name())
	}
	var running sync.WaitGroup
	failed := make([]error, 16)
	for i := range failed {
		running.Go(func() {
			for at := i; at < len(names); at += len(failed) {
				_, err := w.c.Admin.Merge(noContext, w.path(ns, "redis", names[at]),
					`{"metadata":{"finalizers":null}}`)
				if err != nil && !IsCode(err, http.StatusNotFound) {
					failed[i] = err
				}
			}
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

func (w *tenantWorld) path(ns, plural string, name ...string) string {
	return "/apis/skiff.dev/v1alpha1/namespaces/" + strings.Join(append([]string{ns, plural}, name...), "/")
}

// victims makes one object of each kind.
func (w *tenantWorld) victims() {
	w.Helper()
	for plural := range tenantKinds {
		w.create(w.victim, plural, "victim", Object{"metadata": Object{}, "spec": tenantSpec(plural)})
	}
}

func (w *tenantWorld) create(ns, plural, name string, object Object) {
	noError(w, w.tryCreate(w.Context(), ns, plural, name, object))
}

func (w *tenantWorld) tryCreate(ctx context.Context, ns, plural, name string, object Object) error {
	meta := object["metadata"].(Object)
	meta["name"] = name
	_, err := w.c.Admin.Create(ctx, w.path(ns, plural), Object{"apiVersion": "skiff.dev/v1alpha1",
		"kind": tenantKinds[plural], "metadata": meta, "spec": object["spec"]})
	return err
}

// attack begins the attack, and returns when it is complete.
func (w *tenantWorld) attack() {
	w.Helper()
	began := time.Now()
	parallel(w.T, w.a.n, func(ctx context.Context, i int) error {
		return w.tryCreate(ctx, w.attacker, w.a.plural, fmt.Sprintf("a%04d", i), w.a.object(i))
	})
	w.Logf("attack complete after %s", time.Since(began).Round(time.Millisecond))
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for i := range w.a.flaps {
		w.flapping.Go(func() { w.flap(ctx, i) })
	}
}

// flap changes an object ten times a second, as far as the server does.
func (w *tenantWorld) flap(ctx context.Context, i int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		_, err := w.c.Admin.Merge(ctx, w.path(w.attacker, w.a.plural, fmt.Sprintf("a%04d", i)),
			tenantChange(w.a.plural, n))
		if err != nil && ctx.Err() == nil {
			w.refused.Add(1)
		}
	}
}

// tenantChange changes what a controller acts on.
func tenantChange(plural string, n int) Object {
	return Object{"spec": map[string]Object{
		"webservers":      {"image": fmt.Sprintf("x:%d", n)},
		"redis":           {"port": 6370 + n%11},
		"restarttriggers": {"suspend": n%2 == 0},
	}[plural]}
}

// calm ends the attack: all objects become small.
func (w *tenantWorld) calm() {
	w.Helper()
	w.stop()
	w.flapping.Wait()
	if n := w.refused.Load(); n > 0 {
		w.Logf("%d writes of the attacker were refused", n)
	}
	parallel(w.T, w.a.n, func(ctx context.Context, i int) error {
		patch := Object{"metadata": Object{"annotations": nil}, "spec": tenantSpec(w.a.plural)}
		if w.a.plural == "restarttriggers" {
			patch["spec"].(Object)["source"] = Object{"selector": Object{"matchExpressions": nil,
				"matchLabels": Object{"a": "b"}}}
		} else {
			patch["spec"].(Object)["template"] = nil
		}
		_, err := w.c.Admin.Merge(ctx, w.path(w.attacker, w.a.plural, fmt.Sprintf("a%04d", i)), patch)
		return err
	})
}

// pods makes a Redis of the attacker with two pods.
func (w *tenantWorld) pods() {
	w.Helper()
	w.create(w.attacker, "redis", "pods", Object{"metadata": Object{}, "spec": Object{"num": 2, "port": 6379}})
	Eventually(w, tenantRecovery, "the attacker's Redis has pods", func() (bool, string) {
		n := w.count("/api/v1/namespaces/" + w.attacker + "/pods")
		return n == 2, fmt.Sprint(n)
	})
}

// count returns how many objects a collection has.
func (w *tenantWorld) count(collection string) int {
	w.Helper()
	list := must(w.c.Admin.Get(w.Context(), collection+"?limit=1"))(w)
	return len(list.List("items")) + max(0, list.Int("metadata", "remainingItemCount")) // -1: there is none
}

// deletes deletes all objects of the attack, waits until they are gone, and makes one that is to be worked on.
func (w *tenantWorld) deletes() {
	w.Helper()
	w.stop()
	if n, _ := w.left(); n == 0 {
		w.Error("all of the attacker's objects are worked on, want some that are not: the attack is none")
	}
	began, all := time.Now(), w.path(w.attacker, w.a.plural)
	parallel(w.T, w.a.n, func(ctx context.Context, i int) error { // the server deletes a collection one by one
		return w.c.Admin.Delete(ctx, fmt.Sprintf("%s/a%04d", all, i))
	})
	noError(w, w.c.Admin.Delete(w.Context(), all+"/pods"))
	requested := time.Since(began)
	Eventually(w, tenantRecovery-requested, "all that the attacker has deleted is gone", func() (bool, string) {
		w.alive()
		n := w.count(all)
		return n == 0, fmt.Sprint(n)
	})
	w.Logf("%d objects deleted, which took the server %s, gone after %s", w.a.n, requested.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	if n := w.count("/api/v1/namespaces/" + w.attacker + "/pods"); n > 0 {
		w.Errorf("%d pods are left of deleted Redis, want 0: pods are removed first", n)
	}
	w.create(w.attacker, w.a.plural, "next", Object{"metadata": Object{}, "spec": tenantSpec(w.a.plural)})
}

// recovers returns how long it takes until all is worked on.
func (w *tenantWorld) recovers() time.Duration {
	w.Helper()
	began, first := time.Now(), -1
	for {
		left, one := w.left()
		took := time.Since(began)
		if first < 0 {
			first = left
		}
		if left == 0 {
			if most := tenantRecovery + w.serverTime(first); took > most {
				w.Errorf("all is worked on %s after the attack, want at most %s", took, most)
			}
			return took
		}
		if took > 2*tenantRecovery {
			w.Errorf("%d objects are not worked on %s after the attack, want 0 after %s; one of them: %s", left, took,
				tenantRecovery, one)
			return took
		}
		w.alive()
		if took > tenantRecovery {
			w.Logf("%d objects are not worked on %s after the attack", left, took)
		}
		select {
		case <-time.After(time.Second):
		case <-w.Context().Done():
		}
	}
}

// left returns how many of the attacker's objects are not worked on, and one of them.
func (w *tenantWorld) left() (n int, one string) {
	w.Helper()
	list := must(w.c.Admin.Get(w.Context(), w.path(w.attacker, w.a.plural)))(w)
	for _, o := range list.List("items") {
		if o.Int("status", "observedGeneration") != o.Int("metadata", "generation") ||
			o.Condition("Stalled").Str("status") == "True" && w.a.plural != "restarttriggers" ||
			w.a.ends && o.Str("metadata", "finalizers", "0") == "" {
			n++
			one = o.String()
		}
	}
	return n, one
}

// tenantSample is how many objects' requests are sent to find out how fast the server is, as many at a time as skiff
// has workers.
const tenantSample, tenantWorkers = 200, 4

// serverTime is how long the server takes for what n objects need, by how long it takes for some. kube-apiserver v1.36
// counts all cluster IPs of the cluster for each new Service that has one: where there are 5,000, it makes about 125 a
// second on two cores, for one client that sends 4 or 32 at a time and nothing else.
func (w *tenantWorld) serverTime(n int) time.Duration {
	w.Helper()
	if n < tenantSample {
		return 0
	}
	began := time.Now()
	var running sync.WaitGroup
	for worker := range tenantWorkers {
		running.Go(func() {
			for i := worker; i < tenantSample; i += tenantWorkers {
				if err := w.sample(fmt.Sprint("sample", i)); err != nil {
					w.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	took := time.Since(began)
	w.Logf("the server takes what %.0f of the attacker's objects need a second", tenantSample/took.Seconds())
	return took * time.Duration(n) / tenantSample
}

// sample sends what skiff sends for one object: its children, and changes of it, of which an Event is one.
func (w *tenantWorld) sample(name string) error {
	labels := Object{"app": "sample"}
	service := Object{"selector": labels, "ports": []Object{{"port": 80}}}
	path := "/api/v1/namespaces/" + w.attacker + "/services"
	changes := 2
	switch w.a.plural {
	case "webservers":
		_, err := w.c.Admin.Create(w.Context(), "/apis/apps/v1/namespaces/"+w.attacker+"/deployments", Object{
			"metadata": Object{"name": name}, "spec": Object{"replicas": 0,
				"selector": Object{"matchLabels": labels}, "template": Object{"metadata": Object{"labels": labels},
					"spec": Object{"containers": []Object{{"name": "a", "image": "x"}}}}}})
		if err != nil {
			return err
		}
	case "redis":
		service["clusterIP"], changes = "None", 3
	case "restarttriggers":
		service["clusterIP"], changes = "None", 1
	}
	if _, err := w.c.Admin.Create(w.Context(), path, Object{"metadata": Object{"name": name},
		"spec": service}); err != nil {
		return err
	}
	for i := range changes {
		if _, err := w.c.Admin.Merge(w.Context(), path+"/"+name,
			Object{"metadata": Object{"labels": Object{"n": fmt.Sprint(i)}}}); err != nil {
			return err
		}
	}
	return nil
}
