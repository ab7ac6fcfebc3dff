package leader

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"skiff/internal/testcluster/apiserver"
)

// Connections that die and come back, answers that are late or lost, processes that are stopped and started anew: at
// no
// time do two of them lead, and when all is well again one does.
//
// Rules: LE-01, LE-02, LE-04, LE-05
func TestInRandomHistoriesNoTwoProcessesLead(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			run(t, func(w *world) { history(w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func history(w *world, r *rand.Rand) {
	names := []string{"a", "b", "c"}
	all := map[string]*candidate{}
	for _, name := range names {
		all[name] = w.start(name)
	}
	for range 100 {
		time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
		name := names[r.IntN(len(names))]
		p := all[name]
		switch r.IntN(6) {
		case 0, 1:
			p.pipe.Blackhole(true)
		case 2:
			p.pipe.Blackhole(false)
		case 3:
			w.api.Inject(apiserver.Fault{UserAgent: name, Verb: "patch", Times: 1 + r.IntN(9),
				AnswerDelay: time.Duration(r.IntN(3000)) * time.Millisecond})
		case 4:
			w.api.Inject(apiserver.Fault{UserAgent: name, Times: 1 + r.IntN(5), Cut: apiserver.CutAfter})
		case 5:
			p.linger = time.Duration(r.IntN(5)) * time.Second
			_ = p.end() // it may be cut off, and then cannot release
			all[name] = w.start(name)
		}
	}
	for _, p := range all {
		p.pipe.Blackhole(false)
	}
	time.Sleep(2 * time.Minute)
	if w.leader() == "" {
		w.t.Errorf("all is well, and nobody leads; terms: %v", w.terms)
	}
	if len(w.terms) < 5 {
		w.t.Errorf("only %d terms", len(w.terms))
	}
	for _, p := range all {
		_ = p.end() // what is left of the faults may keep it from releasing
	}
}
