package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// tenantProbe changes the victims all the time.
type tenantProbe struct {
	w       *tenantWorld
	cancel  context.CancelFunc
	running sync.WaitGroup
	going   sync.RWMutex // held for writing while the probe pauses
	paused  bool         // so it is; of the test's goroutine alone
	mu      sync.Mutex   // guards took and shown
	took    map[string][]time.Duration
	shown   map[int]time.Time // by generation of the victim of the attacked kind: when a watch of the test had it
}

// probe begins to change the victims.
func (w *tenantWorld) probe() *tenantProbe {
	ctx, cancel := context.WithCancel(context.Background())
	p := &tenantProbe{w: w, cancel: cancel, took: map[string][]time.Duration{}, shown: map[int]time.Time{}}
	p.running.Go(func() { p.watch(ctx) })
	for plural := range tenantKinds {
		p.running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				p.change(ctx, plural, n)
			}
		})
	}
	w.Cleanup(func() {
		p.cancel()
		if p.paused {
			p.resume()
		}
		p.running.Wait()
	})
	return p
}

// watch notes when a watch of the attacked kind shows the victim's changes. An event waits for all before it, and of
// 300 objects of 0.9 MB in half a minute the server itself is late: a watch by kubectl had a change after 18 s. The
// server also ends a watch that it cannot write to for a moment, which is then resumed, as skiff does.
func (p *tenantProbe) watch(ctx context.Context) {
	for version := ""; ctx.Err() == nil; {
		last, err := p.watchFrom(ctx, version)
		var event watched
		if err == nil && len(last) > 0 {
			err = json.Unmarshal(last, &event)
			version = event.Object.Metadata.ResourceVersion
		}
		if err == nil && event.Type == "ERROR" {
			err = errors.New(string(last))
		}
		if err != nil && ctx.Err() == nil {
			p.w.Errorf("the watch of the test: %v", err)
			return
		}
	}
}

// watched is the part of an event that the probe reads.
type watched struct {
	Type   string
	Object struct {
		Metadata struct {
			Generation      int
			ResourceVersion string
		}
	}
}

// watchFrom watches until the server ends the watch, and returns the last event.
func (p *tenantProbe) watchFrom(ctx context.Context, version string) (last []byte, err error) {
	endless := *p.w.c.Admin
	endless.http = &http.Client{Transport: endless.http.Transport}
	resp, err := endless.send(ctx, http.MethodGet, "/apis/skiff.dev/v1alpha1/"+p.w.a.plural+
		"?watch=true&resourceVersion="+version, nil, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	victim := fmt.Appendf(nil, "%q", p.w.victim)
	for frames := bufio.NewReaderSize(resp.Body, 4<<20); ; { // the server takes objects of 1.5 MiB
		frame, err := frames.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return last, err
		}
		last = append(last[:0], frame...)
		if !bytes.Contains(frame, victim) {
			continue
		}
		var event watched
		if err := json.Unmarshal(frame, &event); err != nil {
			return nil, err
		}
		p.mu.Lock()
		if g := event.Object.Metadata.Generation; p.shown[g].IsZero() {
			p.shown[g] = time.Now()
		}
		p.mu.Unlock()
	}
}

// late returns the time from a change to the event in the watch of the test; took, where there is no event yet.
func (p *tenantProbe) late(plural string, generation int, began time.Time, took time.Duration) time.Duration {
	if plural != p.w.a.plural {
		return 0
	}
	if at := p.shown[generation]; !at.IsZero() {
		return max(0, at.Sub(began))
	}
	return took
}

// pause waits for the changes under way, and for those after it until resume.
func (p *tenantProbe) pause() {
	p.going.Lock()
	p.paused = true
}

func (p *tenantProbe) resume() {
	p.paused = false
	p.going.Unlock()
}

// change makes one change and waits until skiff has made it.
func (p *tenantProbe) change(ctx context.Context, plural string, n int) {
	p.going.RLock()
	defer p.going.RUnlock()
	victim := p.w.path(p.w.victim, plural, "victim")
	changed, err := p.w.c.Admin.Merge(ctx, victim, tenantChange(plural, n))
	if err != nil {
		if ctx.Err() == nil {
			p.w.Error(err)
			p.cancel()
		}
		return
	}
	began, slowest := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		asked := time.Now()
		made := p.made(ctx, plural, changed)
		slowest = max(slowest, time.Since(asked))
		if took := time.Since(began); made || took > 12*tenantPatience {
			p.note(plural, changed.Int("metadata", "generation"), began, took, slowest)
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		case <-p.w.skiff.Done():
			return
		}
	}
	select { // few enough that the probe itself is no load
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
	}
}

// made says whether skiff has made a change: of a WebServer and a Redis in a child, and of a RestartTrigger, whose
// change restarts nothing, in its status.
func (p *tenantProbe) made(ctx context.Context, plural string, changed Object) bool {
	get := func(path string) Object {
		o, err := p.w.c.Admin.Get(ctx, path)
		if err != nil {
			return nil // not there yet, or the server is busy: it is asked again
		}
		return o
	}
	switch plural {
	case "webservers":
		child := get("/apis/apps/v1/namespaces/" + p.w.victim + "/deployments/victim")
		return containerOf(child).Str("image") == changed.Str("spec", "image")
	case "redis":
		child := get("/api/v1/namespaces/" + p.w.victim + "/services/victim")
		return child.Int("spec", "ports", "0", "port") == changed.Int("spec", "port")
	}
	now := get(p.w.path(p.w.victim, plural, "victim"))
	return now.Int("status", "observedGeneration") >= changed.Int("metadata", "generation")
}

// note notes how long a change took that began then, while one request took slowest.
func (p *tenantProbe) note(plural string, generation int, began time.Time, took, slowest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took[plural] = append(p.took[plural], took)
	late := p.late(plural, generation, began, took)
	if most := victimPatience() + tenantRequests*slowest + late; took > min(most, 12*tenantPatience) {
		p.w.Errorf("a change of the victim's %s was made after %s, want at most %s: a request took up to %s, and a "+
			"watch had the change after %s", plural, took, most, slowest, late)
	}
}

// stop ends the probe and returns how long a change took at most.
func (p *tenantProbe) stop() string {
	p.cancel()
	p.running.Wait()
	var all []string
	mean := map[string]time.Duration{}
	for plural, took := range p.took {
		if len(took) < 10 {
			p.w.Errorf("only %d changes of the victim's %s were made", len(took), plural)
		}
		for _, d := range took {
			mean[plural] += d / time.Duration(len(took))
		}
		all = append(all, fmt.Sprintf("%s %s of %d and %s on average", plural,
			slices.Max(took).Round(time.Millisecond), len(took), mean[plural].Round(time.Millisecond)))
	}
	attacked := mean[p.w.a.plural]
	delete(mean, p.w.a.plural)
	most := tenantShare * slices.Max(slices.Collect(maps.Values(mean)))
	if attacked > most && len(p.took[p.w.a.plural]) >= tenantChanges && !*attacksFlag {
		p.w.Errorf("a change of the victim's %s took %s on average, want at most %s", p.w.a.plural, attacked, most)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
