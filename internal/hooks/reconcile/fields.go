package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// A server-side apply refuses what POST and PUT take: fields that the schema does not have, and equal keys in a list.
// Hooks that were written for those keep working: unknown fields are left out.

const (
	// maxUnknown is how many unknown fields of a kind are left out: a kind with more is another version's.
	maxUnknown = 100
	// unknownFor is how long they are left out before the server is asked again: a definition may gain them.
	unknownFor = time.Hour
	// maxApplies is how often a sync applies as long as it learns of unknown fields: a POST is refused with all of
	// them, an apply with one.
	maxApplies = 10
)

// unknownFields are those of the children that the server does not know.
type unknownFields struct {
	mu sync.Mutex                             // guards of
	of map[kube.Resource]map[string]time.Time // when the server is asked again, by path: "spec.containers[].x"
}

var (
	unknownByPost  = regexp.MustCompile(`unknown field "([^"]+)"`)
	unknownByApply = regexp.MustCompile(`(?m)(\.\S.*?): field not declared in schema`)
	placeInList    = regexp.MustCompile(`\[[^\]]*\]`)
)

// learn notes the fields that the server has refused a child for. It returns those that it had not been asked about
// before, and whether there is one to leave out from now on.
func (u *unknownFields) learn(child *apply.Result) (first []string, learnt bool) {
	status := kube.AsStatus(child.Err)
	if status == nil {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.of[child.Resource]
	for _, form := range []*regexp.Regexp{unknownByPost, unknownByApply} {
		for _, found := range form.FindAllStringSubmatch(status.Message, maxUnknown) {
			path := placeInList.ReplaceAllString(strings.TrimPrefix(found[1], "."), "[]")
			until, asked := known[path]
			switch {
			case time.Now().Before(until), !asked && len(known) == maxUnknown:
				continue
			case known == nil:
				known = map[string]time.Time{}
				u.of[child.Resource] = known
			}
			if known[path], learnt = time.Now().Add(unknownFor), true; !asked {
				first = append(first, path)
			}
		}
	}
	return first, learnt
}

// leaveOut takes the unknown fields out of a child.
func (u *unknownFields) leaveOut(r kube.Resource, body map[string]any) {
	u.mu.Lock()
	known := maps.Clone(u.of[r])
	u.mu.Unlock()
	maps.DeleteFunc(known, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
	if len(known) > 0 {
		without(known, body, "")
	}
}

func without(known map[string]time.Time, v any, path string) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			at := strings.TrimPrefix(path+"."+name, ".")
			if _, unknown := known[at]; unknown {
				delete(v, name)
			} else {
				without(known, field, at)
			}
		}
	case []any:
		for _, item := range v {
			without(known, item, path+"[]")
		}
	}
}

// outcome is what came of the children of a parent.
type outcome struct {
	created bool
	wait    time.Duration // when to look again; 0: at the next change
	err     error
}

// applyChildren brings the children of a parent to what is declared.
func (r *reconciler) applyChildren(ctx context.Context, about announce.Announcer, owner apply.Owner,
	want []apply.Child) (o outcome) {
	for try := 1; ; try++ {
		for i := range want {
			if k := r.kindOf(want[i].Body); k != nil {
				r.unknown.leaveOut(k.Resource, want[i].Body)
			}
		}
		report := r.engine.Apply(ctx, owner, want, false)
		about.Actions(ctx, report.All())
		again := false
		for i := range report.Children {
			child := &report.Children[i]
			first, learnt := r.unknown.learn(child)
			again = again || learnt
			if len(first) > 0 {
				about.Event(events.Warning, "UnknownFields", fmt.Sprintf("the server does not know these fields of "+
					"%s, and skiff leaves them out: %s", child.Resource.Kind, apply.List(first)), child)
			}
			o.created = o.created || child.Outcome == apply.Created
		}
		if again && try < maxApplies {
			continue
		}
		o.err = report.Err
		for _, child := range report.All() {
			o.err = errors.Join(o.err, child.Err)
			o.wait = apply.Earlier(o.wait, child.Wait)
			switch child.Outcome {
			case apply.Foreign:
				about.Event(events.Warning, "NameTaken", child.Message, &child)
			case apply.Contested:
				about.Event(events.Warning, "Contested", child.Message, &child)
			}
		}
		return o
	}
}

// kindOf returns the kind of a child that was checked.
func (r *reconciler) kindOf(body map[string]any) *kind {
	i := slices.IndexFunc(r.kinds, func(k kind) bool {
		return k.Kind == body["kind"] && k.APIVersion() == body["apiVersion"]
	})
	if i < 0 {
		return nil
	}
	return &r.kinds[i]
}

// checkKeys refuses a list in which two items have the same key.
func checkKeys(n *patch.Node, v any, path string) error {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if err := checkKeys(n.Field(name), field, path+"."+name); err != nil {
				return err
			}
		}
	case []any:
		first := map[string]int{}
		for i, item := range v {
			at := fmt.Sprintf("%s[%d]", path, i)
			if n.ListType() == patch.ListMap {
				if key := n.ItemKey(item); key != nil {
					text := patch.KeyString(key)
					if other, twice := first[text]; twice {
						return fmt.Errorf("%s: has the key %s, as item %d has: keys must differ", at,
							kube.Printable(text, maxKey), other)
					}
					first[text] = i
				}
			}
			if err := checkKeys(n.Item(), item, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxKey is how much of the key of an item goes into an error.
const maxKey = 200
