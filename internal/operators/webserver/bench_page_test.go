package webserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	pagehistory "skiff/internal/runtime/history"
	"skiff/internal/runtime/page"
)

// The live page may make no reconcile slower by more than 1 % (LP-04). This file measures by how much it does.

const (
	// pagePairs of rounds are measured. A round has two or three of the news that a page has each second.
	pagePairs = 20
	pageRound = 2 * time.Second
	// tabsOf is the environment variable with the URL of the page for the process that has the tabs, which must not
	// count as skiff's.
	tabsOf = "SKIFF_BENCH_TABS_OF"
	tabs   = 3
)

// BenchmarkLivePage compares a controller that finds all as it should be without a live page and with one, in pairs of
// rounds that follow each other, in turn the one first and the other. It reports the median of what the pairs differ
// by, and between which differences the middle half of them are.
//
// At full speed that is the share by which a reconcile takes longer, in CPU time and in time; other programs on the
// machine make it uncertain by some percent, as two controllers without a page show. At 100 reconciles a second what
// a page takes is no longer small beside them: then it is CPU time within a second, of which 10 ms are 1 % of a core.
func BenchmarkLivePage(b *testing.B) {
	for _, row := range []struct {
		name         string
		served, open bool
		pace         time.Duration // of a hundred reconciles; 0: as fast as they go
	}{
		{"nowhere", false, false, 0},
		{"in three tabs", true, true, 0},
		{"without a tab, 100 a second", true, false, time.Second},
		{"in three tabs, 100 a second", true, true, time.Second},
	} {
		b.Run(row.name, func(b *testing.B) {
			plain := newRig(b, nil)
			defer plain.end()
			var past *pagehistory.Log
			if row.served {
				past = new(pagehistory.Log)
			}
			live := newRig(b, past)
			defer live.end()
			open, shut := func() {}, func() {}
			if row.open {
				var end func()
				open, shut, end = serveTabs(b, live.controller, past)
				defer end()
			}
			for b.Loop() {
				var pairs []pair
				for i := range pagePairs {
					var p pair
					measure := []func(){func() { p.without = round(plain, row.pace) }, func() {
						open()
						p.with = round(live, row.pace)
						shut()
					}}
					measure[i%2]()
					measure[1-i%2]()
					pairs = append(pairs, p)
				}
				if row.pace > 0 {
					report(b, pairs, "cpu-ms/s", func(p pair) float64 {
						return 1000 * (p.with.cpu/p.with.wall - p.without.cpu/p.without.wall)
					})
					continue
				}
				report(b, pairs, "%-cpu", func(p pair) float64 {
					return 100 * (p.with.cpu/p.with.runs/(p.without.cpu/p.without.runs) - 1)
				})
				report(b, pairs, "%-time", func(p pair) float64 {
					return 100 * (p.with.wall/p.with.runs/(p.without.wall/p.without.runs) - 1)
				})
			}
		})
	}
}

// cost is what some reconciles took, in seconds.
type cost struct{ runs, cpu, wall float64 }

// pair is a round without a page, and one with it.
type pair struct{ without, with cost }

// round has a controller find for a while that all is as it should be. pace is that of a hundred times.
func round(r *rig, pace time.Duration) (c cost) {
	began, busy := time.Now(), cpu()
	for time.Since(began) < pageRound {
		next := time.NewTimer(pace)
		for range 100 {
			r.touch()
			c.runs++
		}
		<-next.C
	}
	c.cpu, c.wall = (cpu() - busy).Seconds(), time.Since(began).Seconds()
	return c
}

// report reports the median of what the pairs differ by, and the quartiles.
func report(b *testing.B, pairs []pair, unit string, differ func(pair) float64) {
	var all []float64
	for _, p := range pairs {
		all = append(all, differ(p))
	}
	slices.Sort(all)
	n := len(all)
	b.ReportMetric((all[n/2-1]+all[n/2])/2, unit)
	b.ReportMetric(all[n/4], unit+"-from")
	b.ReportMetric(all[n-1-n/4], unit+"-to")
}

// serveTabs serves the page of a controller and starts the process that has the tabs. open opens them, and returns
// when they show all that there is.
func serveTabs(b *testing.B, c *controller.Controller, past *pagehistory.Log) (open, shut, end func()) {
	server := httptest.NewServer(page.New(page.Options{Version: "bench", Started: time.Now(), Contact: time.Now,
		Controllers: func() []*controller.Controller { return []*controller.Controller{c} }, History: past,
		Leader: func() string { return "" }, Process: func() []health.Problem { return nil }}).Handler())
	cmd := exec.Command(os.Args[0], "-test.run=^TestTheTabsOfAnotherProcess$")
	cmd.Env, cmd.Stderr = append(os.Environ(), tabsOf+"="+server.URL), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	do := func(what string) func() {
		return func() {
			if _, err := fmt.Fprintln(in, what); err != nil {
				b.Fatal(err)
			}
			if !answers.Scan() || answers.Text() != "done" {
				b.Fatalf("%s: the tabs say %q", what, answers.Text())
			}
		}
	}
	return do("open"), do("shut"), func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the tabs: %v", err)
		}
		server.Close()
	}
}

// TestTheTabsOfAnotherProcess is what the other process runs: it opens the tabs and shuts them, as it is told.
func TestTheTabsOfAnotherProcess(t *testing.T) {
	url := os.Getenv(tabsOf)
	if url == "" {
		t.Skip("BenchmarkLivePage runs it")
	}
	shut := func() {}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("done") {
		if in.Text() == "shut" {
			shut()
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running, first sync.WaitGroup
		first.Add(tabs)
		for range tabs {
			running.Go(func() {
				if err := follow(ctx, url+"/debug/", sync.OnceFunc(first.Done)); err != nil && ctx.Err() == nil {
					fmt.Println(err)
				}
			})
		}
		first.Wait()
		shut = func() {
			cancel()
			running.Wait()
		}
	}
}

// follow is a tab: it fetches each panel when there are news of it. shown is called when it has all.
func follow(ctx context.Context, url string, shown func()) error {
	stream, err := get(ctx, url+"stream")
	if err != nil {
		return err
	}
	defer stream.Close()
	had := map[string]string{}
	for lines := bufio.NewScanner(stream); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var news page.News
		if err := json.Unmarshal([]byte(data), &news); err != nil {
			return err
		}
		for _, panel := range []string{"state", "owners", "timeline", "queue", "watches"} {
			if had[panel] == news.Versions[panel] {
				continue
			}
			body, err := get(ctx, url+panel+"?fragment=1")
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, body)
			if err := errors.Join(err, body.Close()); err != nil {
				return err
			}
		}
		had = maps.Clone(news.Versions)
		shown()
	}
	return ctx.Err()
}

func get(ctx context.Context, url string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
