package manager

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/controller"
)

func TestALogThatIsNotReadIsSaidWhereverElseAPersonLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newServer(t)
		var log LogState
		all := runAll(t, Options{Controllers: []*controller.Controller{things(client)}, Client: client,
			PageAddr: "page", LogState: func() LogState { return log }})
		time.Sleep(time.Minute)
		for _, test := range []struct {
			state LogState
			said  bool
		}{
			{LogState{}, false},
			{LogState{Dropped: 7, Blocked: time.Now().Add(-5 * time.Second)}, false}, // a write may take as long
			{LogState{Dropped: 7, Blocked: time.Now().Add(-time.Minute)}, true},
			{LogState{Dropped: 7}, false}, // it is read again
		} {
			log = test.state
			_, body := all.health.get("/readyz?verbose")
			const line = "\n    ! 7 lines were dropped, and the log has not been read for 1m0s; the work goes on"
			if strings.Contains(body, line) != test.said {
				t.Errorf("%+v: %s", log, body)
			}
			if well := stateOf(t, all.page).Banner.Well; well == test.said {
				t.Errorf("%+v: all is well: %v", log, well)
			}
		}
		_, body := all.metrics.get("/metrics")
		expectText(t, "/metrics", body, "\nskiff_log_lines_dropped_total 7\n")
		expect(t, "stop", all.stop(), nil)
	})
}
