package reconcile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// A server-side apply refuses fields missing in the schema, and equal keys in a list, where POST and PUT do not. Hooks
// written for POST and PUT keep working: unknown fields are left out.

const (
	// maxUnknown is how many unknown fields of a kind are left out: a kind with more is another version's.
	maxUnknown = 100
	// unknownFor is how long a field is left out before the server is asked again: a definition may gain the field.
	unknownFor = time.Hour
	// maxApplies is how often a sync applies while the server names more unknown fields: a refused POST names all, a
	// refused apply only one.
	maxApplies = 10
)

// unknownFields are the fields of children unknown to the server.
type unknownFields struct {
	mu sync.Mutex                             // guards of
	of map[kube.Resource]map[string]time.Time // when the server is asked again, by path: "spec.containers[].x"
}

var (
	unknownByPost  = regexp.MustCompile(`unknown field "([^"]+)"`)
	unknownByApply = regexp.MustCompile(`(?m)(\.\S.*?): field not declared in schema`)
	placeInList    = regexp.MustCompile(`\[[^\]]*\]`)
)

// learn notes the fields for which the server has refused a child, and returns the fields not known before.
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
			at := patch.Join(path, name)
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

// leftOut are the unknown fields left out of the children of a parent, by kind.
type leftOut map[string]map[string]bool

// all takes the unknown fields out of the children.
func (l leftOut) all(r *reconciler, want []apply.Child) {
	for i := range want {
		l.one(r, want[i].Body)
	}
}

// add adds the fields left out of other children.
func (l leftOut) add(others leftOut) {
	for kind, paths := range others {
		if l[kind] == nil {
			l[kind] = map[string]bool{}
		}
		maps.Copy(l[kind], paths)
	}
}

// one takes the unknown fields out of a child, and says whether there are any.
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

// again says that a refused child had a field now known to be left out, perhaps from the apply of another parent. The
// refusal is not final.
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

// checkKeys refuses a list in which two items have the same key.
func checkKeys(n *patch.Node, v any, path string) error {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if err := checkKeys(n.Field(name), field, patch.Join(path, name)); err != nil {
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

// maxKey bounds a key of an item in an error, and a path in a note.
const maxKey = 200
