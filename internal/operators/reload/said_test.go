package reload

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// lines are the lines of a log, each with the level or "INFO", and the reason.
type lines struct {
	mu  sync.Mutex // guards all
	all []string
}

func (l *lines) sayer() *sayer {
	log := funcr.NewJSON(func(line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		level, reason := "INFO", ""
		if strings.Contains(line, `"WARN"`) {
			level = "WARN"
		}
		if _, after, ok := strings.Cut(line, `"reason":"`); ok {
			reason, _, _ = strings.Cut(after, `"`)
		}
		l.all = append(l.all, level+" "+reason)
	}, funcr.Options{})
	return &sayer{log: log}
}

func TestAProcessWithFlagsLogsProblemsOnce(t *testing.T) {
	problem := func(reason string, of health.Severity) *health.Problem {
		return &health.Problem{Reason: reason, Severity: of}
	}
	for name, c := range map[string]struct {
		found []*health.Problem
		want  []string
	}{
		"nothing": {[]*health.Problem{nil, nil}, nil},
		"a wait":  {[]*health.Problem{problem(coolingDown, health.Passing), nil}, nil},
		"a source is missing": {[]*health.Problem{problem(missing, health.Passing), nil},
			[]string{"WARN SourceMissing", "INFO SourceMissing"}},
		"again and again": {[]*health.Problem{problem(stopped, health.Stalled), problem(stopped, health.Stalled)},
			[]string{"WARN OtherFailed"}},
		"another": {[]*health.Problem{problem(stopped, health.Stalled), problem(contested, health.Stalled), nil},
			[]string{"WARN OtherFailed", "WARN StateContested", "INFO StateContested"}},
		"a wait between": {[]*health.Problem{problem(missing, health.Passing), problem(debouncing, health.Passing),
			problem(missing, health.Passing)}, []string{"WARN SourceMissing"}},
	} {
		var log lines
		s := log.sayer()
		for _, p := range c.found {
			s.say(id{"Deployment", kube.Key{Namespace: "default", Name: "web"}}, p)
		}
		if !slices.Equal(log.all, c.want) {
			t.Errorf("%s: got %q, want %q", name, log.all, c.want)
		}
	}
}

func TestManyProblemsAreLoggedWithoutTheMemoryOfAll(t *testing.T) {
	var log lines
	s := log.sayer()
	for i := range maxSaid + 10 {
		s.say(id{"Deployment", kube.Key{Name: fmt.Sprint(i)}}, &health.Problem{Reason: contested})
	}
	if len(s.said) != maxSaid || len(log.all) != maxSaid {
		t.Errorf("%d are remembered, and %d lines logged", len(s.said), len(log.all))
	}
}

func TestStandaloneSaysThatItsSourceIsMissing(t *testing.T) {
	var log lines
	a := Standalone{Targets: []Target{{"Deployment", "web"}}, ConfigMaps: []string{"a"}, Cooldown: time.Minute}
	aloneWith(t, a, log.sayer().log, func(w *env) {
		w.deploy("web", "", envFrom("b"))
		w.Start()
		w.Pass(time.Hour)
		w.configMap("a", "1")
		w.Pass(time.Minute)
		all := slices.DeleteFunc(log.all, func(line string) bool { return !strings.Contains(line, missing) })
		if want := []string{"WARN " + missing, "INFO " + missing}; !slices.Equal(all, want) {
			t.Errorf("the log has %q, want %q", all, want)
		}
	})
}
