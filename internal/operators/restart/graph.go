package restart

import (
	"slices"
	"strings"
	"sync"

	"skiff/internal/kube"
)

// graph knows which triggers a pod matters to, and which trigger's restarts set off which other one. The mirrors' goroutines ask it
// about pods, and reconciles tell it what they have learned of targets.
type graph struct {
	wake func(k kube.Key, cause string) // runs a trigger that may be in a cycle now, or in none any more

	mu       sync.Mutex // guards all below
	nodes    map[kube.Key]*node
	bySource map[string]map[kube.Key]*node // by the namespace of the source
	byTarget map[placed]map[kube.Key]*node // by what is restarted
	problems map[kube.Key]error            // triggers whose spec makes no rule
}

// placed is a target with its namespace.
type placed struct {
	namespace string
	TargetRef
}

// node is a trigger with a valid spec.
type node struct {
	key        kube.Key
	generation int64
	uid        string
	rule       *rule
	labels     map[TargetRef]kube.Labels // of the pods that each target makes, as far as it has been read
}

func newGraph(wake func(k kube.Key, cause string)) *graph {
	return &graph{wake: wake, nodes: map[kube.Key]*node{}, bySource: map[string]map[kube.Key]*node{}, byTarget: map[placed]map[kube.Key]*node{},
		problems: map[kube.Key]error{}}
}

// changeLocked runs f, which changes what a trigger's restarts set off, and wakes all whose cycles that may open or close.
func (g *graph) changeLocked(k kube.Key, f func()) {
	affected := g.upstreamLocked(k)
	f()
	for _, other := range g.upstreamLocked(k) {
		if !slices.Contains(affected, other) {
			affected = append(affected, other)
		}
	}
	for _, other := range affected {
		g.wake(other, resource.Kind+" "+k.String()+" may open or close a cycle")
	}
}

// put enters a trigger as it is now. What was learned of its targets stays.
func (g *graph) put(t *RestartTrigger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.nodes[t.Key()]
	if old == nil || old.uid != t.UID || old.generation < t.Generation {
		g.changeLocked(t.Key(), func() { g.putLocked(t, old) })
	}
}

func (g *graph) putLocked(t *RestartTrigger, old *node) {
	k := t.Key()
	g.removeLocked(k)
	r, err := newRule(t.Namespace, &t.Spec)
	if err != nil {
		g.problems[k] = err
		return
	}
	n := &node{key: k, generation: t.Generation, uid: t.UID, rule: r, labels: map[TargetRef]kube.Labels{}}
	if old != nil && old.uid == t.UID {
		n.labels = old.labels
	}
	g.nodes[k] = n
	enter(g.bySource, r.namespace, n)
	for _, ref := range r.targets {
		enter(g.byTarget, placed{k.Namespace, ref}, n)
	}
}

// remove forgets a trigger.
func (g *graph) remove(k kube.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changeLocked(k, func() { g.removeLocked(k) })
}

func (g *graph) removeLocked(k kube.Key) {
	delete(g.problems, k)
	n := g.nodes[k]
	if n == nil {
		return
	}
	delete(g.nodes, k)
	leave(g.bySource, n.rule.namespace, k)
	for _, ref := range n.rule.targets {
		leave(g.byTarget, placed{k.Namespace, ref}, k)
	}
}

func enter[I comparable](index map[I]map[kube.Key]*node, at I, n *node) {
	if index[at] == nil {
		index[at] = map[kube.Key]*node{}
	}
	index[at][n.key] = n
}

func leave[I comparable](index map[I]map[kube.Key]*node, at I, k kube.Key) {
	if delete(index[at], k); len(index[at]) == 0 {
		delete(index, at)
	}
}

// learn notes the labels of the pods that a target makes.
func (g *graph) learn(k kube.Key, t target) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[k]
	if n == nil {
		return
	}
	var now kube.Labels
	if t.live != nil {
		now = t.live.Spec.Template.Metadata.Labels
	}
	if was, known := n.labels[t.TargetRef]; known == (t.live != nil) && slices.Equal(was, now) {
		return
	}
	g.changeLocked(k, func() {
		if t.live == nil {
			delete(n.labels, t.TargetRef)
		} else {
			n.labels[t.TargetRef] = now
		}
	})
}

// rule returns what a trigger's spec means, or what is wrong with it. The spec may be newer or older than what the caller has; a
// change of it is on its way then.
func (g *graph) rule(t *RestartTrigger) (*rule, error) {
	g.put(t)
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.nodes[t.Key()]; n != nil {
		r := *n.rule
		return &r, nil
	}
	return nil, g.problems[t.Key()]
}

// forPod returns the triggers that a pod matters to: as a source, or because it belongs to a target, which has changed then.
func (g *graph) forPod(p *pod) []kube.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []kube.Key
	for k, n := range g.bySource[p.Namespace] {
		if n.rule.selector.matches(p.Labels) {
			keys = append(keys, k)
		}
	}
	if ref, ok := ownerOf(p); ok {
		for k := range g.byTarget[placed{p.Namespace, ref}] {
			keys = append(keys, k)
		}
	}
	return keys
}

// upstreamLocked returns the triggers whose restarts can come, on whatever way, to the source of this one.
func (g *graph) upstreamLocked(k kube.Key) []kube.Key {
	start := g.nodes[k]
	if start == nil {
		return nil
	}
	var found []kube.Key
	for todo := []*node{start}; len(todo) > 0; todo = todo[1:] {
		for k, n := range g.nodes {
			if k != start.key && !slices.Contains(found, k) && n.feeds(todo[0]) {
				found = append(found, k)
				todo = append(todo, n)
			}
		}
	}
	return found
}

// feeds says whether a restart by n makes pods that are source pods of m.
func (n *node) feeds(m *node) bool {
	if n.key.Namespace != m.rule.namespace {
		return false
	}
	for _, ref := range n.rule.targets {
		if labels, ok := n.labels[ref]; ok && m.rule.selector.matches(labels) {
			return true
		}
	}
	return false
}

// cycle returns the way on which the restarts of a trigger come back to it, nil if they do not. It begins and ends with the trigger;
// of several ways it is a shortest one.
func (g *graph) cycle(k kube.Key) []kube.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	start := g.nodes[k]
	if start == nil {
		return nil
	}
	seen := map[kube.Key]bool{}
	for ways := [][]*node{{start}}; len(ways) > 0; ways = ways[1:] {
		way := ways[0]
		last := way[len(way)-1]
		if last.feeds(start) {
			var out []kube.Key
			for _, n := range way {
				out = append(out, n.key)
			}
			return append(out, k)
		}
		for _, next := range g.sortedLocked() {
			if !seen[next.key] && next != start && last.feeds(next) {
				seen[next.key] = true
				ways = append(ways, append(slices.Clone(way), next))
			}
		}
	}
	return nil
}

// sortedLocked returns the nodes in the order of their keys, so that a cycle is always described in the same words.
func (g *graph) sortedLocked() []*node {
	out := make([]*node, 0, len(g.nodes))
	for _, n := range g.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *node) int { return a.key.Compare(b.key) })
	return out
}

// cycleText describes a cycle.
func cycleText(way []kube.Key) string {
	names := make([]string, len(way))
	for i, k := range way {
		names[i] = k.String()
	}
	return strings.Join(names, " -> ")
}
