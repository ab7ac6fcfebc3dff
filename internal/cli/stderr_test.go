package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/cli/clitest"
	"skiff/internal/testcluster/apiserver"
)

// valve is a stderr that takes nothing while it is closed.
type valve struct {
	clitest.Buffer
	turn chan struct{} // has an element while it is open
}

func newValve() *valve {
	v := &valve{turn: make(chan struct{}, 1)}
	v.open()
	return v
}

func (v *valve) open() { v.turn <- struct{}{} }
func (v *valve) shut() { <-v.turn }

func (v *valve) Write(p []byte) (int, error) {
	<-v.turn
	defer v.open()
	return v.Buffer.Write(p)
}

func TestALogThatIsNotReadStopsNothingAndSaysWhatWasDropped(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		synctest.Test(t, func(t *testing.T) {
			v := newValve()
			s := &Stderr{out: v}
			log := must((&logFlags{format: format, verbosity: 1}).logger(s))(t)
			log.Info("first")
			synctest.Wait()
			if !strings.Contains(v.String(), "first") || !s.state().Blocked.IsZero() {
				t.Fatalf("written: %q, %+v", v, s.state())
			}
			v.shut()
			const lines = 4000
			for range lines {
				log.Info("many", "text", strings.Repeat("x", 1000))
			}
			time.Sleep(time.Minute) // virtual
			blocked := s.state()
			if time.Since(blocked.Blocked) != time.Minute || blocked.Dropped < lines/4 || blocked.Dropped > lines*3/4 {
				t.Errorf("nothing is read for a minute: %+v", blocked)
			}
			v.open()
			synctest.Wait()
			log.Info("last")
			s.close()
			got := v.String()
			written := strings.Count(got, "many")
			if after := s.state(); !after.Blocked.IsZero() || after.Dropped != blocked.Dropped ||
				uint64(written)+after.Dropped != lines {
				t.Errorf("%d of %d lines are written, %+v", written, lines, after)
			}
			ends := got[len(got)-400:]
			if strings.Count(got, "lines of the log were dropped") != 1 || !strings.Contains(ends, "last") ||
				!strings.Contains(ends, "WARN") {
				t.Errorf("the log ends with %s", ends)
			}
		})
	}
}

func TestLinesOfSeveralWritersStayWholeAndInOrder(t *testing.T) {
	var out clitest.Buffer
	s := &Stderr{out: &out}
	s.queue(func(int) {})
	const each = 2000
	done := make(chan struct{})
	for _, name := range []string{"a", "b", "c"} {
		go func() {
			for i := range each {
				_, _ = io.WriteString(s, name+strings.Repeat("x", i%50)+"\n")
			}
			done <- struct{}{}
		}()
	}
	for range 3 {
		<-done
	}
	s.close()
	count := map[string]int{}
	for line := range strings.Lines(out.String()) {
		name := line[:1]
		if line != name+strings.Repeat("x", count[name]%50)+"\n" {
			t.Fatalf("line %d of %s is %q", count[name], name, line)
		}
		count[name]++
	}
	if count["a"] != each || count["b"] != each || count["c"] != each {
		t.Errorf("lines: %v", count)
	}
}

// A buffer that is being written is not the one that lines go into.
func TestWhatIsBeingWrittenIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValve()
		s := &Stderr{out: v}
		s.queue(func(int) {})
		want := ""
		for i := range 20 {
			if i%3 == 0 {
				v.shut()
			}
			for half := range 2 {
				line := strings.Repeat(string(rune('a'+2*i+half)), 5) + "\n"
				want += line
				_, _ = io.WriteString(s, line)
				synctest.Wait()
			}
			if i%3 == 0 {
				v.open()
				synctest.Wait()
			}
		}
		s.close()
		if got := v.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestAStderrThatBreaksIsNoReasonToRepeatTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Stderr{out: noReader{}}
		reports := 0
		s.queue(func(int) { reports++ })
		for range 10 {
			_, _ = io.WriteString(s, "a line\n")
			synctest.Wait()
		}
		s.close()
		if reports > 0 || s.state().Dropped != 10 {
			t.Errorf("%d reports, %+v", reports, s.state())
		}
	})
}

type noReader struct{}

func (noReader) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestASkiffWhoseStderrIsNotReadWorksAndStops(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v := newValve()
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, []string{"run", "--server", c.url(), "--controllers", "webserver", "-v", "1"}, io.Discard, v)
	}()
	f := clitest.Follower{T: t, Stderr: &v.Buffer}
	f.Await("started", func() bool { return strings.Contains(v.String(), "msg=started") })
	v.shut()
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		c.create(webServers, "default", object{
			"metadata": object{"name": name}, "spec": object{"image": "nginx"}})
	}
	f.Await("all deployments are there", func() bool {
		return len(c.api.List(deployments, "default")) == 8
	})
	cancel()
	select {
	case got := <-code:
		if got != ExitDone {
			t.Errorf("exit code %d", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("the process does not end")
	}
	v.open()
}

// BenchmarkStderr is a line of the log into a file.
func BenchmarkStderr(b *testing.B) {
	line := []byte(strings.Repeat("x", 200) + "\n")
	for name, queued := range map[string]bool{"direct": false, "queued": true} {
		b.Run(name, func(b *testing.B) {
			file := must(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(b)
			defer file.Close()
			s := &Stderr{out: file}
			if queued {
				s.queue(func(int) {})
			}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Write(line)
			}
			s.close()
		})
	}
}
