package patch

import (
	"fmt"
	"slices"
	"testing"
)

func TestChangesHaveTheirPlaces(t *testing.T) {
	deployment := SchemaFor("apps/v1", "Deployment")
	for _, c := range []struct {
		name          string
		before, after string
		want          []string // Brief, String, before and after
	}{
		{"an empty list is missing", `{"a":[]}`, `{}`, nil},
		{"a field is set", `{}`, `{"spec":{"replicas":2}}`, []string{"spec.replicas spec.replicas <nil> 2"}},
		{"a quantity is written in another way", `{"spec":{"template":{"spec":{"containers":[{"name":"a",
			"resources":{"limits":{"cpu":"500m"}}}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"a",
			"resources":{"limits":{"cpu":"0.5"}}}]}}}}`, nil},
		{"a quantity is stored as another text", `{"spec":{"template":{"spec":{"containers":[{"name":"a",
			"resources":{"limits":{"memory":"1Gi"}}}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"a",
			"resources":{"limits":{"memory":"1073741824"}}}]}}}}`, []string{"spec.template.spec.containers[a].resources." +
			`limits.memory spec.template.spec.containers[name="a"].resources.limits.memory 1Gi 1073741824`}},
		{"a key with dots", `{"metadata":{"annotations":{"a.b/c":"x"}}}`, `{}`,
			[]string{`metadata.annotations["a.b/c"] metadata.annotations.a.b/c x <nil>`}},
		{"an item is known by its name, and has its merge key", `{"spec":{"template":{"spec":{"containers":[{"name":"a",
			"ports":[{"name":"http","containerPort":80,"protocol":"TCP","hostPort":1}]}]}}}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"a",
			"ports":[{"name":"http","containerPort":80,"protocol":"TCP","hostPort":2}]}]}}}}`,
			[]string{`spec.template.spec.containers[a].ports[http].hostPort spec.template.spec.containers[name="a"]` +
				`.ports[containerPort=80,protocol="TCP"].hostPort 1 2`}},
		{"a list without names is one value", `{"args":["a"]}`, `{"args":["a","b"]}`, []string{"args args [a] [a b]"}},
		{"an item with a name alone", `{"l":[{"name":"a","x":1}]}`, `{"l":[{"name":"a","x":2}]}`,
			[]string{"l[a].x l[a].x 1 2"}},
		{"two items of one name are one value", `{"l":[{"name":"a"}]}`, `{"l":[{"name":"a"},{"name":"a"}]}`,
			[]string{"l l [map[name:a]] [map[name:a] map[name:a]]"}},
	} {
		var got []string
		before, after := decode(t, c.before).(map[string]any), decode(t, c.after).(map[string]any)
		for _, one := range Changes(deployment, before, after) {
			got = append(got, fmt.Sprint(one.At.Brief(), " ", one.At, " ", one.Before, " ", one.After))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q\nwant\n%q", c.name, got, c.want)
		}
	}
}
