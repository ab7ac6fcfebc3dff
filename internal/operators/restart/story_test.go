package restart

import (
	"slices"
	"testing"
	"time"
)

const (
	statusWrite = "PATCH restarttriggers/rt/status 200"
	readIt      = "GET deployments/predixy 200"
	restartIt   = "PATCH deployments/predixy 200"
)

// Rules: WRT-04, WRT-11, MGR-12
func TestStoryOfTheArticleWithTheWritesOfEachStep(t *testing.T) {
	story(t, func(w *world) {
		w.forget()
		w.trigger("rt", selectRedis+","+toPredixy)
		w.pass(time.Minute)
		w.wantRequests(readIt, statusWrite)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.want("selector", w.status("rt", "selector"), "app=redis")
		w.want("targets", w.status("rt", "targetNames"), "deployment/predixy")
		w.wantRestarts(0)

		w.forget()
		w.replace("redis-1")
		w.wantWrites(statusWrite)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.wantCondition("rt", "Progressing", "True/Pending")
		w.want("pod", w.status("rt", "pending", "pod"), "redis-1")
		w.wantRestarts(0)

		w.pass(time.Minute)
		w.wantWrites(statusWrite, statusWrite, restartIt, statusWrite, statusWrite)
		w.wantRestarts(1)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.wantCondition("rt", "Progressing", "False/Armed")
		w.want("reason", w.status("rt", "lastRestart", "reason"), "NewPodRunning")
		w.want("pod", w.status("rt", "lastRestart", "pod"), "redis-1")
		w.want("time", w.status("rt", "lastRestart", "time"), w.restartedAt(deployments, "predixy"))
		w.want("count", w.status("rt", "restarts"), 1)
		w.want("Events of the target", w.notes("Deployment", "predixy"), []string{"Restarted: restarted by RestartTrigger rt: pod redis-1 replaced, new IP"})
		w.want("Events of the trigger", w.notes("RestartTrigger", "rt"), []string{"Restarted: restarted deployment/predixy: pod redis-1 replaced, new IP"})

		w.forget()
		w.pass(time.Hour)
		w.wantRequests()
		w.stop()
		w.start()
		w.pass(time.Hour)
		w.wantRequests(readIt)
		if slices.Contains(w.writes(), restartIt) {
			t.Error("pods of the first list restarted the target")
		}
	})
}
