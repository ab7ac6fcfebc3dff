package restart

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// AllowAnnotation on a namespace names the other namespaces whose RestartTriggers may have its pods as a source,
// separated by commas; "*" allows all.
const AllowAnnotation = "skiff.dev/allow-restart-triggers-from"

const (
	// maxTriggers bounds the work of an event of one pod.
	maxTriggers = 200
	// allowedFor is how long an answer of the source namespace holds while pods change.
	allowedFor = 30 * time.Second
)

type namespace struct {
	kube.MetaOwn `json:"metadata"`
}

// allows says whether a namespace allows triggers of another one.
func (n *namespace) allows(other string) bool {
	list, _ := n.Annotations.Get(AllowAnnotation)
	return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
		s = strings.TrimSpace(s)
		return s == "*" || s == other
	})
}

const lookAgain = "; skiff looks again"

// stop stops a trigger until the problem is solved.
func stop(s State, p *health.Problem) decision {
	return decision{state: s, restart: -1, problem: p}
}

// refuse is stop for a trigger that must not act on the changes seen, now or later: all known of sources is forgotten.
func refuse(s State, p *health.Problem) decision {
	s = s.clone()
	s.Seen, s.SeenConfigs, s.Pending, s.Round = "", "", nil, nil
	return stop(s, p)
}

// admit refuses a trigger, by a decision with a problem, where the namespace has too many triggers, or the trigger may
// not see the pods of its source.
func (r *run) admit(ctx context.Context, rl *rule) (d decision, err error) {
	if !r.find.amongOldest(r.t) {
		d = stop(r.t.Status.State, stalled("TooManyTriggers", "delete some"+lookAgain, "namespace %s has more "+
			"than %d RestartTriggers, and only the oldest %[2]d work", r.t.Namespace, maxTriggers))
		d.again(controller.SlowDelay, "rechecks the number of triggers")
		return d, nil
	}
	if rl.namespace == r.t.Namespace || r.now.Sub(r.allowed) < allowedFor {
		return d, nil
	}
	var source namespace
	err = r.client.Get(ctx, namespaces, kube.Key{Name: rl.namespace}, &source)
	switch {
	case err == nil && source.allows(r.t.Namespace):
		r.allowed = r.now
		return d, nil
	case err == nil, kube.IsNotFound(err): // whether the namespace exists stays a secret
		d = refuse(r.t.Status.State, stalled("SourceNotAllowed",
			fmt.Sprintf("annotate it with %s: %q%s", AllowAnnotation, r.t.Namespace, lookAgain),
			"spec.source.namespace: namespace %s does not allow RestartTriggers of namespace %s, or does not exist",
			rl.namespace, r.t.Namespace))
	case kube.IsForbidden(err):
		p := stalled("SourceNotAllowed", "grant get on namespaces"+lookAgain, "spec.source.namespace: skiff cannot "+
			"see whether namespace %s has the annotation %s that allows this", rl.namespace, AllowAnnotation)
		p.Quoted = kube.Explain(err)
		d = stop(r.t.Status.State, p)
	default:
		return r.fail(ctx, r.t.Status.State, err)
	}
	r.allowed = time.Time{}
	d.again(controller.SlowDelay, "rechecks namespace "+rl.namespace)
	return d, nil
}

// Rights are all rights of the controller by default.
var Rights = Sources{}.Rights()

// Rights are all rights of the controller with these sources; the client sends nothing else.
func (s Sources) Rights() []kube.Right {
	s = s.served()
	rights := []kube.Right{
		{Resource: resource, Verbs: []string{"get", "list", "watch"}, Why: "what is declared"},
		{Resource: resource, Subresource: "status", Verbs: []string{"patch"}, Why: "what was seen"},
	}
	if s.Pods {
		rights = append(rights,
			kube.Right{Resource: pods, Verbs: []string{"list", "watch"}, Why: sourceRight},
			kube.Right{Resource: namespaces, Verbs: []string{"get"},
				Why: "whether pods of another namespace may be a source"})
	}
	if s.ConfigMaps {
		rights = append(rights, kube.Right{Resource: sources.ConfigMaps, Verbs: []string{"list", "watch"},
			Why: sourceRight})
	}
	if s.Secrets {
		rights = append(rights, kube.Right{Resource: sources.Secrets, Verbs: []string{"list", "watch"},
			Why: sourceRight + "; no value is kept"})
	}
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		rights = append(rights, kube.Right{Resource: targetKinds[kind], Verbs: []string{"get", "patch"},
			Why: "targets of a RestartTrigger"})
	}
	return append(rights, events.Rights...)
}

const sourceRight = "sources of a RestartTrigger"

// Rights are all rights of a `skiff restart` with this spec.
func (s *Spec) Rights() []kube.Right {
	rights := []kube.Right{
		{Resource: pods, Verbs: []string{"list", "watch"}, Why: "the pods that the targets depend on"}}
	seen := map[string]bool{}
	for _, t := range s.Targets {
		if !seen[t.Kind] {
			seen[t.Kind] = true
			rights = append(rights,
				kube.Right{Resource: targetKinds[t.Kind], Verbs: []string{"get", "patch"}, Why: "the targets"})
		}
	}
	return rights
}
