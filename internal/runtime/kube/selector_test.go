package kube_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// requirement is one part of a label selector, as text and as what it means.
type requirement struct {
	text  string
	holds func(labels map[string]string) bool
}

var (
	labelKeys   = []string{"app", "tier", "example.com/part-of", "a.b-c/d_e.f"}
	labelValues = []string{"", "web", "db-1", "v1.2_3"}
)

func randomRequirement(r *rand.Rand) requirement {
	key := labelKeys[r.IntN(len(labelKeys))]
	some := slices.Clone(labelValues)
	r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:1+r.IntN(3)]
	value := some[0]
	is := func(l map[string]string) bool { v, ok := l[key]; return ok && v == value }
	isIn := func(l map[string]string) bool { v, ok := l[key]; return ok && slices.Contains(some, v) }
	not := func(f func(map[string]string) bool) func(map[string]string) bool {
		return func(l map[string]string) bool { return !f(l) }
	}
	has := func(l map[string]string) bool { _, ok := l[key]; return ok }
	set := "(" + strings.Join(some, ",") + ")"
	all := []requirement{{key + "=" + value, is}, {key + "==" + value, is}, {key + "!=" + value, not(is)},
		{key + " in " + set, isIn}, {key + " notin " + set, not(isIn)}, {key, has}, {"!" + key, not(has)}}
	return all[r.IntN(len(all))]
}

// Rules: LST-23
func TestASelectorReachesTheServerAsItIsWritten(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		r := rand.New(rand.NewPCG(1, 1))
		labels := map[string]map[string]string{}
		for i := range 30 {
			name, own := fmt.Sprintf("m%02d", i), map[string]string{"test": "selectors"}
			for _, k := range labelKeys {
				if r.IntN(3) > 0 {
					own[k] = labelValues[r.IntN(len(labelValues))]
				}
			}
			body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": name, "labels": own}}
			if err := c.Create(t.Context(), configMaps, "default", body, nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			labels[name] = own
		}
		for range 200 {
			parts, wanted := []string{"test=selectors"}, []requirement{}
			for range 1 + r.IntN(3) {
				wanted = append(wanted, randomRequirement(r))
				parts = append(parts, wanted[len(wanted)-1].text)
			}
			without := fmt.Sprintf("m%02d", r.IntN(30))
			q := kube.Query{Resource: configMaps, LabelSelector: strings.Join(parts, ","),
				FieldSelector: "metadata.name!=" + without + ",metadata.namespace=default"}
			list, err := kube.List[*configMap](t.Context(), c, q, kube.ListOptions{})
			if err != nil {
				t.Fatalf("%q: %v", q.LabelSelector, err)
			}
			var got, want []string
			for _, m := range list.Items {
				got = append(got, m.Name)
			}
			for name, l := range labels {
				if name != without && !slices.ContainsFunc(wanted, func(q requirement) bool { return !q.holds(l) }) {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%q without %s: got %v, want %v", q.LabelSelector, without, got, want)
			}
		}
	})
}
