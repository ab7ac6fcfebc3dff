package call_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
)

// has waits until a log has n records, and returns them.
func (l *logs) has(t *testing.T, n int) []string {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		if all := l.all(); len(all) >= n {
			return all
		}
		<-tick.C
	}
	t.Fatalf("the log has %q, want %d records", l.all(), n)
	return nil
}

// traceback is a shell command that prints 20 lines and a secret on stderr.
const traceback = `{ echo 'Traceback (most recent call last):'; i=0; while [ $i -lt 18 ]; do
i=$((i+1)); echo "  File \"hook.py\", line $i"; done; echo "ValueError: password=hunter2"; } >&2
`

// Rules: HK-41
func TestATracebackIsOneRecordOfTheLog(t *testing.T) {
	c, log := newCaller(t, shell(t, spec.Oneshot, traceback+"exit 3"))
	refused(t, c, "exit status 3: ValueError")
	all := log.all()
	if len(all) != 1 || strings.Contains(all[0], "hunter2") ||
		!strings.Contains(all[0], `"said"="Traceback (most recent call last):\n  File \"hook.py\", line 1\n`) ||
		!strings.Contains(all[0], `line 18\nValueError: password=[redacted]"`) {
		t.Errorf("log %q", all)
	}
	c, log = newCaller(t, shell(t, spec.Lines, answering+`while read -r line; do
`+traceback+`sleep 0.1; answer; done`), func(o *call.Options) { o.Workers = 1 })
	ask(t, c, `{"n":1}`)
	ask(t, c, `{"n":2}`)
	c.Close()
	if all := log.all(); len(all) != 2 || strings.Count(all[1], `\n`) != 19 {
		t.Errorf("log %q", all)
	}
}

// Rules: HK-41
func TestAProgramIsHeardBetweenItsCalls(t *testing.T) {
	c, log := newCaller(t, shell(t, spec.Lines, answering+`while read -r line; do
answer; echo one >&2; echo two >&2; done`), func(o *call.Options) { o.Workers = 1 })
	ask(t, c, `{"n":1}`)
	if all := log.has(t, 1); !strings.Contains(all[0], `"said"="one\ntwo"`) {
		t.Errorf("log %q", all)
	}
}

// Rules: HK-41
func TestARecordOfTheLogIsBounded(t *testing.T) {
	c, log := newCaller(t, shell(t, spec.Oneshot, fmt.Sprintf("yes %01000d | head -n 50 >&2; exit 1", 0)))
	refused(t, c, "exit status 1")
	if all := log.all(); len(all) != 1 || len(all[0]) > 16<<10 {
		t.Errorf("%d records, the first of %d bytes", len(all), len(all[0]))
	}
}
