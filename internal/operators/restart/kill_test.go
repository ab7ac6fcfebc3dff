package restart

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
)

// Rules: MGR-15
func TestKillingTheControllerAtAnyRequestNeitherLosesNorDoublesARestart(t *testing.T) {
	operatortest.KillAtAnyRequest(t, options, func(ow *operatortest.Env, start func(), pass func(time.Duration)) {
		w := inCluster(ow)
		w.deploy("predixy", 1)
		w.deploy("second", 1)
		w.pod("redis-0")
		w.Pass(5 * time.Second)
		start()
		w.trigger("rt", selectRedis+`,"debounce":"2s","cooldown":"30s","targets":[{"kind":"Deployment","name":"predixy"},{"kind":"Deployment","name":"second"}]`)
		pass(10 * time.Second)
		for round := 1; round <= 2; round++ {
			w.replace("redis-0")
			pass(2 * time.Minute)
			for _, name := range []string{"predixy", "second"} {
				w.Want("revision of "+name, w.revision(name), fmt.Sprint(round+1))
			}
			w.Want("count", w.status("rt", "restarts"), round)
		}
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Want("restart of the second target", w.restartedAt(deployments, "second"),
			w.restartedAt(deployments, "predixy"))
	})
}
