package apply

import (
	"reflect"
	"testing"
	"time"

	"skiff/internal/kube"
)

func TestAStatusPatchHoldsWhatDiffersAndTheFirstOneAll(t *testing.T) {
	type Inner struct {
		Generation int `json:"generation"`
	}
	type status struct {
		Inner
		Replicas int        `json:"replicas"`
		Port     *int       `json:"port"`
		At       *time.Time `json:"at"`
		Members  []string   `json:"members"`
	}
	noon, port := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 80
	elsewhere := noon.In(time.FixedZone("", 0))
	before := status{Inner: Inner{1}, Replicas: 2, Port: &port, At: &noon, Members: []string{"a"}}
	after := before
	after.Generation, after.Port, after.At = 2, nil, &elsewhere
	for name, test := range map[string]struct {
		before, after status
		want          map[string]kube.Raw
	}{
		"the first": {status{}, status{Members: []string{}}, map[string]kube.Raw{"generation": kube.Raw(`0`),
			"replicas": kube.Raw(`0`), "port": kube.Raw(`null`), "at": kube.Raw(`null`), "members": kube.Raw(`[]`)}},
		"another":                       {before, after, map[string]kube.Raw{"generation": kube.Raw(`2`), "port": kube.Raw(`null`)}},
		"the same time in another zone": {status{At: &noon}, status{At: &elsewhere}, map[string]kube.Raw{}},
	} {
		got := map[string]kube.Raw{}
		was := reflect.ValueOf(test.before)
		if err := differing(was, reflect.ValueOf(test.after), was.IsZero(), got); err != nil ||
			!reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
		}
	}
}
