package webserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/apply"
	"skiff/internal/cache"
	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; who made it runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	s.Client = s.Client.Limit(Rights)
	ws := controller.Mirror[*WebServer](s, resource, "")
	ds := controller.Mirror[*deployment](s, deployments, apply.ManagedBySelector)
	ss := controller.Mirror[*service](s, services, apply.ManagedBySelector)
	r := &reconciler{
		cached:     func(ws *WebServer) (seen, error) { return cachedChildren(ws, ds, ss) },
		webservers: apply.NewStatuses[WebServer](s.Client, ws),
		children:   apply.New(s.Client, apply.Of(ds, apply.InPlace), apply.Of(ss, apply.InPlace)),
		events:     recorder,
		refused:    map[kube.Key]time.Time{},
	}
	return s.New("webserver", r.Reconcile, controller.For(ws), controller.Owns(ds, resource.Kind), controller.Owns(ss, resource.Kind))
}

type reconciler struct {
	cached     func(ws *WebServer) (seen, error)
	webservers *apply.Statuses[WebServer, *WebServer]
	children   *apply.Engine
	events     *events.Recorder

	mu      sync.Mutex             // guards refused
	refused map[kube.Key]time.Time // since when the node port of a WebServer has been refused as taken
}

const (
	// portPatience is how long a node port that is taken is asked for again. The API server frees the port of a deleted
	// Service after it has told of the deletion: a POST that follows at once comes too early, in two of five cases (seen
	// on v1.36, milliseconds). After seconds somebody else has it.
	portPatience = 3 * time.Second
	// portRetry is the first wait in between. It doubles.
	portRetry = 10 * time.Millisecond
	// recheck is the wait for a node port that another Service has to give up: nothing tells us when it does.
	recheck = time.Minute
)

// Reconcile makes the children of a WebServer what it declares, and its status what was seen.
func (r *reconciler) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	ws, ok, err := r.webservers.Get(key)
	if err != nil {
		return controller.Done, err
	}
	if !ok || ws.Deleting() {
		r.forget(key)
		return controller.Done, nil
	}
	f := r.converge(ctx, ws)
	r.announceDeeds(ws, f.deeds)
	f.explain(ctx)
	if f.stale {
		return controller.Wait(f.wait), f.err()
	}
	status := observe(ws, f, time.Now())
	changed, err := r.webservers.Write(ctx, ws, ws.Status, status)
	switch {
	case errors.Is(err, apply.ErrOvertaken):
		f.wait = apply.Earlier(f.wait, time.Second)
	case err != nil:
		f.errs = append(f.errs, err)
	case changed:
		r.announceNews(ctx, ws, f, status.Conditions)
	}
	return controller.Wait(f.wait), f.err()
}

// forget drops all memory of a WebServer that is gone.
func (r *reconciler) forget(key kube.Key) {
	r.webservers.Forget(key)
	r.children.Forget(key)
	r.portGranted(key)
}

// findings are what came of one round.
type findings struct {
	seen
	deeds   []deed
	problem *conditions.Problem // the first and worst; nil: none
	about   events.Object       // the child that problem is about; the zero value: none
	failed  error               // of the first child that failed; it is problem if there is no other
	note    string              // something that went another way than wanted, and is all right
	held    string              // what differs from what is declared, and is left so because the WebServer is paused; "": nothing
	wait    time.Duration
	stale   bool // what was seen is out of date already: do not write it down
	errs    []error
}

func (f *findings) err() error { return errors.Join(f.errs...) }

// explain makes a problem of what failed. What passes by itself in a moment is none, and no news for a user.
func (f *findings) explain(ctx context.Context) {
	if f.failed == nil {
		return
	}
	next := controller.NextOf(ctx, f.err())
	f.stale = f.stale || next.Brief
	if f.problem == nil {
		f.problem = conditions.Failed(f.about.Kind, f.failed, next.Step, next.Stalled)
	}
}

// seen are the children as last seen; nil: not there, or not ours.
type seen struct {
	deployment *deployment
	service    *service
}

// cachedChildren returns the children as the cache has them.
func cachedChildren(ws *WebServer, ds *cache.Store[*deployment], ss *cache.Store[*service]) (seen, error) {
	var s seen
	d, ok, err := ds.Get(ws.Key())
	if err != nil {
		return s, err
	}
	if ok && d.ControllerUID() == ws.UID {
		s.deployment = d
	}
	svc, ok, err := ss.Get(kube.Key{Namespace: ws.Namespace, Name: serviceName(ws.Name)})
	if err != nil {
		return s, err
	}
	if ok && svc.ControllerUID() == ws.UID {
		s.service = svc
	}
	return s, nil
}

// converge applies the children, both of them whatever happens to the other. Those of a paused WebServer it only looks at.
func (r *reconciler) converge(ctx context.Context, ws *WebServer) *findings {
	f := &findings{}
	want, err := desired(ws)
	if err != nil {
		f.errs = append(f.errs, controller.Terminal(err))
		f.problem = &conditions.Problem{Reason: "InvalidSpec", Message: err.Error() + "; correct the spec", Stalled: true}
		if f.seen, err = r.cached(ws); err != nil {
			f.errs = append(f.errs, err)
			f.stale = true
		}
		return f
	}
	paused := conditions.IsPaused(ws.Annotations)
	want.service.Insist = r.waitsForPort(ws.Key())
	report := r.children.Apply(ctx, apply.OwnerOf(resource, ws), []apply.Child{want.deployment, want.service}, paused)
	dep, svc := report.Children[0], report.Children[1]
	f.deployment = apply.As[deploymentStatus](dep.Live)
	record(ctx, f, childObject(ws, deployments, dep.Live), dep)
	if cause, refused := nodePortRefused(svc.Err); refused {
		svc = r.otherPort(ctx, f, ws, want.service, svc, cause)
	} else if svc.Err == nil {
		r.portGranted(ws.Key())
	}
	f.service = apply.As[struct{}](svc.Live)
	record(ctx, f, childObject(ws, services, svc.Live), svc)
	return f
}

// record adds what came of one child.
func record(ctx context.Context, f *findings, child events.Object, result apply.Result) {
	f.do(ctx, child, result)
	if result.Outcome == apply.Held && f.held == "" {
		f.held = result.Message
	}
	f.wait = apply.Earlier(f.wait, result.Wait)
	f.stale = f.stale || result.Outcome == apply.Overtaken
	if result.Err != nil {
		f.errs = append(f.errs, result.Err)
	}
	if f.problem != nil || f.failed != nil {
		return
	}
	f.problem, f.failed = problemOf(result.Outcome, result.Message), result.Err
	if f.problem != nil || f.failed != nil {
		f.about = child
	}
}

// otherPort deals with a Service whose node port was refused: it is asked for again for a moment, and then another one is
// taken if it was only kept, not declared (and not the cluster's own choice, which fails where none is left).
func (r *reconciler) otherPort(ctx context.Context, f *findings, ws *WebServer, c apply.Child, refused apply.Result,
	cause string) apply.Result {
	waited := r.portRefused(ws.Key())
	switch {
	case waited < portPatience:
		f.stale = true
		refused.Err, refused.Wait = nil, max(waited, portRetry)
		return refused
	case c.Create == nil: // there is no other one to take
		refused.Err, refused.Wait = nil, recheck
		message := fmt.Sprintf("no node port: %s; free one, skiff looks again every minute", cause)
		if ws.Spec.NodePort != nil {
			message = fmt.Sprintf("spec.nodePort %d: %s; choose another one or free it, skiff looks again every minute", *ws.Spec.NodePort, cause)
		}
		if f.problem == nil {
			f.problem, f.about = &conditions.Problem{Reason: "NodePortRefused", Message: message}, childObject(ws, services, refused.Live)
		}
		return refused
	}
	c.Create, c.Insist = nil, true
	svc := r.children.Apply(ctx, apply.OwnerOf(resource, ws), []apply.Child{c}, false).Children[0]
	if svc.Err == nil && svc.Outcome == apply.Created {
		f.note = fmt.Sprintf("node port %d could not be kept (%s), the Service has another one; set spec.nodePort to choose it",
			*ws.Status.NodePort, cause)
		logr.FromContextOrDiscard(ctx).Info("node port changed", "message", f.note)
		r.event(ws, events.Warning, nodePortChanged, f.note, events.ObjectOf(services, svc.Live)) // links to the old one are dead
	}
	return svc
}

// nodePortRefused returns why the server did not give the Service its node port.
func nodePortRefused(err error) (string, bool) {
	if !kube.IsInvalid(err) {
		return "", false
	}
	for _, c := range kube.AsStatus(err).Details.Causes {
		if strings.HasSuffix(c.Field, ".nodePort") {
			return c.Message, true
		}
	}
	return "", false
}

// portRefused returns for how long the node port of a WebServer has been refused.
func (r *reconciler) portRefused(key kube.Key) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, ok := r.refused[key]
	if !ok {
		r.refused[key] = time.Now()
		return 0
	}
	return time.Since(since)
}

// waitsForPort says whether portRefused has been called since the last portGranted.
func (r *reconciler) waitsForPort(key kube.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.refused[key]
	return ok
}

func (r *reconciler) portGranted(key kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refused, key)
}
