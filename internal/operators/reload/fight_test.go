package reload

import (
	"fmt"
	"testing"
	"time"
)

// setState puts a value of the state annotation into the Deployment web; "null" removes it.
func (w *env) setState(value string) {
	w.Helper()
	w.Patch(deployments, "web", fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, StateAnnotation, value))
}

// A GitOps tool whose repository has the annotation puts an old value back again and again.
func TestAnOldStateThatIsPutBackRestartsNothing(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", auto, envFrom("a"))
		w.Pass(time.Minute)
		old, _ := at(w.API.Get(deployments, in("web")), "metadata", "annotations", StateAnnotation).(string)
		w.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 1)
		w.Forget()
		for range 60 {
			w.setState(fmt.Sprintf("%q", old))
			w.Pass(time.Minute)
		}
		w.wantRestarts("web", 1)
		if n := len(w.Writes()); n == 0 || n > 60 {
			t.Errorf("%d writes within an hour", n)
		}
		// The content counts all the same.
		w.setConfigMap("a", "3")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 2)
		w.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 3)
		w.setConfigMap("a", "3")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 4)
	})
}

func TestAStateThatIsRemovedAgainAndAgainIsNotWrittenEachTime(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", auto, envFrom("a"))
		w.Pass(time.Minute)
		w.Forget()
		for range 600 {
			w.setState("null")
			w.Pass(time.Second)
		}
		if n := len(w.Writes()); n == 0 || n > 5 {
			t.Errorf("%d writes within ten minutes", n)
		}
		// When the other gives up, the state comes back.
		w.Pass(time.Hour)
		w.setConfigMap("a", "2")
		w.Pass(time.Minute)
		w.wantRestarts("web", 1)
	})
}

// One that puts the pod template back as well rolls the pods each time, and each time the restart is done again.
func TestARestartThatIsUndoneEachTimeIsDoneLessAndLessOften(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", auto, envFrom("a"))
		w.Pass(time.Minute)
		old, _ := at(w.API.Get(deployments, in("web")), "metadata", "annotations", StateAnnotation).(string)
		w.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 1)
		w.Forget()
		for range 60 {
			w.Patch(deployments, "web", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"template":{"metadata":{
				"annotations":{%q:null}}}}}`, StateAnnotation, old, RestartAnnotation))
			w.Pass(time.Minute)
		}
		if n := len(w.Writes()); n == 0 || n > 12 {
			t.Errorf("%d writes within an hour", n)
		}
		w.setConfigMap("a", "3") // counts at once
		w.Forget()
		w.Pass(30 * time.Second)
		w.wantWrites(restartIt)
	})
}
