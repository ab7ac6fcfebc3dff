package apply

import (
	"testing"
	"time"
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
		want          string
	}{
		"the first": {status{}, status{Members: []string{}},
			`{"generation":0,"replicas":0,"port":null,"at":null,"members":[]}`},
		"another":                       {before, after, `{"generation":2,"port":null}`},
		"the same time in another zone": {status{At: &noon}, status{At: &elsewhere}, ""},
	} {
		if got, err := statusPatch(test.before, test.after); err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
		}
	}
}
