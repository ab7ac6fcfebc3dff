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
	// maxUnknown is how many unknown fields of a kind are left out in a namespace: a kind with more is another
	// version's.
	maxUnknown = 100
	// maxUnknownPath bounds what a namespace can have remembered.
	maxUnknownPath = 1 << 10
	// unknownFor is how long a field is left out before the server is asked again: a definition may gain the field.
	unknownFor = time.Hour
	// maxApplies is how often a sync applies while the server names more unknown fields: a refused POST names all, a
	// refused apply only one.
	maxApplies = 10
)

// unknownFields are the fields of children unknown to the server. A field is unknown to a kind, and yet each namespace
// has its own: a name comes from whoever writes the parent, and stands unquoted in the server's message, so that a
// tenant can have any field of the kind taken for unknown.
type unknownFields struct {
	mu sync.Mutex                          // guards of
	of map[childrenOf]map[string]time.Time // when the server is asked again, by path: "spec.containers[].x"
}

// childrenOf are the children of a kind in a namespace; "": cluster-scoped ones.
type childrenOf struct {
	resource  kube.Resource
	namespace string
}

var (
	unknownByPost = regexp.MustCompile(`unknown field "([^"]+)"`)
	// unknownByApply is a field on a line of its own, or behind the object, whose name and group may have dots.
	unknownByApply = regexp.MustCompile(`(?m)^(?:failed to create typed patch object \([^)]*\): )?` +
		`\s*(\.\S.*?): field not declared in schema`)
	placeInList = regexp.MustCompile(`\[[^\]]*\]`)
)

// learn notes the fields for which the server has refused a child, and returns the fields not known before.
func (u *unknownFields) learn(child *apply.Result) (first []string) {
	status := kube.AsStatus(child.Err)
	if status == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	of := childrenOf{child.Resource, child.Key.Namespace}
	known := u.of[of]
	for _, form := range []*regexp.Regexp{unknownByPost, unknownByApply} {
		for _, found := range form.FindAllStringSubmatch(status.Message, maxUnknown) {
			path := placeInList.ReplaceAllString(strings.TrimPrefix(found[1], "."), "[]")
			until, asked := known[path]
			if !asked && len(known) == maxUnknown { // some may have been met an hour ago, and not since
				maps.DeleteFunc(known, over)
			}
			switch {
			case time.Now().Before(until), !asked && len(known) == maxUnknown, len(path) > maxUnknownPath:
				continue
			case known == nil:
				known = map[string]time.Time{}
				u.of[of] = known
			}
			if known[path] = time.Now().Add(unknownFor); !asked {
				first = append(first, path)
			}
		}
	}
	return first
}

// over says whether the server is asked again about a field.
func over(_ string, until time.Time) bool { return !time.Now().Before(until) }

// leave drops the fields of a namespace.
func (u *unknownFields) leave(namespace string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.of, func(of childrenOf, _ map[string]time.Time) bool { return of.namespace == namespace })
}

// leaveOut takes the unknown fields out of a child, and returns their paths.
func (u *unknownFields) leaveOut(r kube.Resource, body map[string]any) (paths []string) {
	meta, _ := body["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	u.mu.Lock()
	known := maps.Clone(u.of[childrenOf{r, namespace}])
	u.mu.Unlock()
	maps.DeleteFunc(known, over)
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
