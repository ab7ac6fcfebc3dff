package cache

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/kube"
)

func TestAnUntypedObjectKeepsTheDeclaredFields(t *testing.T) {
	const body = `{"spec":{"replicas":3,"deep":{"a":1,"b":[{"c":1},{"d":2}]},"x.y/z":"dotted"},` +
		`"status":null,"d\u0061ta":{"k":"v"}}`
	for paths, want := range map[string]string{
		"":                               body,
		"spec.replicas":                  `{"spec":{"replicas":3}}`,
		"spec.replicas spec.deep.a":      `{"spec":{"replicas":3,"deep":{"a":1}}}`,
		"spec.deep spec.deep.a":          `{"spec":{"deep":{"a":1,"b":[{"c":1},{"d":2}]}}}`,
		"spec.deep.a spec.deep":          `{"spec":{"deep":{"a":1,"b":[{"c":1},{"d":2}]}}}`,
		"spec.deep.b.c":                  `{"spec":{"deep":{"b":[{"c":1},{"d":2}]}}}`,
		`spec.x\.y/z`:                    `{"spec":{"x.y/z":"dotted"}}`,
		"data status.phase":              `{"status":null,"data":{"k":"v"}}`,
		"spec.absent nothing":            `{"spec":{}}`,
		"nothing":                        ``,
		"spec.replicas.deeper.than.that": `{"spec":{"replicas":3}}`,
	} {
		tree, err := fieldTree(strings.Fields(paths))
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.of(kube.Raw(body)); string(got) != want {
			t.Errorf("%s: %s, want %s", paths, got, want)
		}
	}
}

func TestAFieldThatIsNoPathIsRefused(t *testing.T) {
	m := NewMirrors()
	for _, wrong := range [][]string{{""}, {"spec."}, {".spec"}, {"a..b"}, slices.Repeat([]string{"a"}, maxFields+1),
		{strings.Repeat("a.", maxFields) + "a"}} {
		if _, err := m.Untyped(Options{Resource: pods}, wrong); err == nil ||
			!strings.Contains(err.Error(), "mirror pods: ") {
			t.Errorf("%.40q: %v", wrong, err)
		}
	}
}

// The machinery is that of every Store: lists, events, indexes, sharing.
func TestAnUntypedMirrorFollowsTheServer(t *testing.T) {
	inOneTurn(t, "an untyped mirror keeps the JSON of its objects and asks for nothing else")
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		m := NewMirrors()
		o := Options{Resource: pods, Client: s.client}
		open := func(fields ...string) *Store[*Untyped] {
			t.Helper()
			store, err := m.Untyped(o, fields)
			if err != nil {
				t.Fatal(err)
			}
			return store
		}
		store := open("spec.priority", "status")
		if open("status", "spec.priority", "status") != store {
			t.Error("the same fields gave another mirror")
		}
		if open("spec.priority") == store || any(Shared[*pod](m, o)) == any(store) {
			t.Error("other fields, or a type, gave the same mirror")
		}
		store.Index("body", func(u *Untyped) []string { return []string{string(u.Body)} })
		go store.Run(t.Context())
		synctest.Wait()
		live.send(added("a", "5", 1), added("b", "6", 2), endMark("20"), modified("b", "21", 3))
		want := func(body string, names ...string) {
			t.Helper()
			got, err := store.ByIndex("body", "default", body)
			var have []string
			for _, u := range got {
				have = append(have, u.Name)
			}
			if err != nil || !slices.Equal(have, names) {
				t.Errorf("objects with %s: %q, %v, want %q", body, have, err, names)
			}
		}
		want(`{"spec":{"priority":1}}`, "a")
		want(`{"spec":{"priority":2}}`)
		want(`{"spec":{"priority":3}}`, "b")
	})
}
