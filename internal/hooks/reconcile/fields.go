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

	"github.com/go-logr/logr"

	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
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
// before.
func (u *unknownFields) learn(child *apply.Result) (first []string) {
	status := kube.AsStatus(child.Err)
	if status == nil {
		return nil
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
			if known[path] = time.Now().Add(unknownFor); !asked {
				first = append(first, path)
			}
		}
	}
	return first
}

// leaveOut takes the unknown fields out of a child, and returns their paths.
func (u *unknownFields) leaveOut(r kube.Resource, body map[string]any) (paths []string) {
	u.mu.Lock()
	known := maps.Clone(u.of[r])
	u.mu.Unlock()
	maps.DeleteFunc(known, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
	if len(known) > 0 {
		without(known, body, "", func(path string) { paths = append(paths, path) })
	}
	return paths
}

// without takes the known paths out of a value, and tells of each.
func without(known map[string]time.Time, v any, path string, tell func(path string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			at := strings.TrimPrefix(path+"."+name, ".")
			if _, unknown := known[at]; unknown {
				delete(v, name)
				tell(at)
			} else {
				without(known, field, at, tell)
			}
		}
	case []any:
		for _, item := range v {
			without(known, item, path+"[]", tell)
		}
	}
}

// outcome is what came of the children of a parent.
type outcome struct {
	created bool
	wait    time.Duration // when to look again; 0: at the next change
	err     error

	contested []string      // notes about children that another writer keeps changing
	pause     time.Duration // the longest one before these are written again
}

// applyChildren brings the children of a parent to what is declared.
func (r *reconciler) applyChildren(ctx context.Context, about announce.Announcer, owner apply.Owner,
	want []apply.Child) (o outcome) {
	left := leftOut{}
	left.all(r, want)
	for try := 1; ; try++ {
		report := r.engine.Apply(ctx, owner, want, false)
		about.Actions(ctx, report.All())
		for i := range report.Children {
			child := &report.Children[i]
			if first := r.unknown.learn(child); len(first) > 0 {
				note := unknownNote(child.Resource.Kind, first)
				about.Event(events.Warning, "UnknownFields", note, child)
				logr.FromContextOrDiscard(ctx).Info(note, kube.Warn("child", child.Key.String())...)
			}
			o.created = o.created || child.Outcome == apply.Created
		}
		if left.again(r, want, &report) && try < maxApplies {
			continue
		}
		r.conclude(ctx, about, &report, left, &o)
		return o
	}
}

// conclude takes in what came of the children in the end.
func (r *reconciler) conclude(ctx context.Context, about announce.Announcer, report *apply.Report, left leftOut,
	o *outcome) {
	o.err = report.Err
	notes, large := left.notes(), []string(nil)
	if len(notes) > 0 {
		apply.Tell(ctx, apply.OwnerOf(r.Parent.Resource, about.Object), nil, apply.Report{LeftOut: notes})
	}
	for _, child := range report.All() {
		shed := cache.Unheld(child.Unheld)
		if shed == nil || cache.Unheld(child.Err) == nil {
			o.err = errors.Join(o.err, child.Err)
		}
		o.wait = apply.Earlier(o.wait, child.Wait)
		switch child.Outcome {
		case apply.Foreign:
			about.Event(events.Warning, "NameTaken", child.Why().Note(), &child)
		case apply.Contested:
			note := r.contestedNote(&child)
			about.Event(events.Warning, "Contested", note, &child)
			o.contested, o.pause = append(o.contested, note), max(o.pause, child.Wait)
		}
		if shed != nil && shed.Reason == cache.TooLarge {
			note := shed.Note() + "; until then it is read from the server each time"
			about.Event(events.Warning, shed.Reason, note, &child)
			large = append(large, note)
		}
	}
	parent := noteKey{r.Parent.Resource, about.Object.ObjectMeta().Key(), aboutChildren}
	if r.Notes.set(parent, strings.Join(append(notes, large...), "; ")) && len(large) > 0 {
		logr.FromContextOrDiscard(ctx).Info("children are not held in memory",
			kube.Warn("reason", strings.Join(large, "; "))...)
	}
}

// leftOut are the unknown fields that are left out of the children of a parent, by kind.
type leftOut map[string]map[string]bool

// all takes the unknown fields out of the children.
func (l leftOut) all(r *reconciler, want []apply.Child) {
	for i := range want {
		l.one(r, want[i].Body)
	}
}

// one takes the unknown fields out of a child, and reports whether there are some.
func (l leftOut) one(r *reconciler, body map[string]any) (some bool) {
	k := r.kindOf(body)
	if k == nil {
		return false
	}
	for _, path := range r.unknown.leaveOut(k.Resource, body) {
		if l[k.Kind] == nil {
			l[k.Kind] = map[string]bool{}
		}
		l[k.Kind][path], some = true, true
	}
	return some
}

// again says that a child was refused for a field that is known by now to be left out: also for one that the apply of
// another parent has met meanwhile. Its refusal is not final.
func (l leftOut) again(r *reconciler, want []apply.Child, report *apply.Report) (again bool) {
	for i := range report.Children {
		if kube.AsStatus(report.Children[i].Err) != nil && l.one(r, want[i].Body) {
			again = true
		}
	}
	return again
}

// notes say which fields are left out.
func (l leftOut) notes() (out []string) {
	for _, kind := range slices.Sorted(maps.Keys(l)) {
		out = append(out, unknownNote(kind, slices.Sorted(maps.Keys(l[kind]))))
	}
	return out
}

func unknownNote(kind string, paths []string) string {
	for i := range paths {
		paths[i] = kube.Printable(paths[i], maxKey)
	}
	return fmt.Sprintf("the server does not know these fields of %s, and skiff leaves them out: %s", kind,
		apply.List(paths))
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
