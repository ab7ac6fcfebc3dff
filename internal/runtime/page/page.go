// Package page is the live page of a process: whether the process is well, the broken objects and since when, and the
// recent events with causes.
//
// The page reads the state of the controllers, and shows names, kinds, reasons, causes and codes, but no content of an
// object: the text of an error is for readers with the token only.
//
// The package runs on the goroutines of the HTTP server that the manager opens; a goroutine of the manager takes the
// samples.
package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// Format is the first field of each answer in JSON. Fields may be added to it, and none changes.
const Format = "skiff-state/1"

// Options are what the page shows. All functions may be called from any goroutine.
type Options struct {
	Version     string
	Place       Place
	Started     time.Time
	Controllers func() []*controller.Controller
	Leader      func() string           // who leads, in words; "": there is no election
	Standby     func() bool             // the controllers wait for the lease; nil: there is no election
	Process     func() []health.Problem // of the process as a whole
	Contact     func() time.Time        // when the API server answered last; zero: it has not
	Hooks       func() []Hook           // that the controllers call; nil: none
	History     *history.Log
	Panicked    func(*process.Panic)   // logs and counts what a panel did
	Hosts       []string               // names of the page, beside localhost and addresses
	Token       func() (string, error) // that readers need; nil: none
	Open        bool                   // also readers without a token may see all: nothing here is secret
}

// Place says which of many clusters and processes a page is about.
type Place struct {
	Context    string `json:"context,omitempty"` // of the kubeconfig
	Server     string `json:"server,omitempty"`
	Process    string `json:"process,omitempty"`    // the pod, or the machine
	Namespaces string `json:"namespaces,omitempty"` // in which it works, separated by commas, or "all"
}

// short names the place where there is little room, as in the title of a tab; "": it is not known.
func (l Place) short() string {
	name := cmp.Or(l.Context, strings.TrimPrefix(strings.TrimPrefix(l.Server, "https://"), "http://"))
	if pod, ok := strings.CutPrefix(l.Process, "pod "); ok && l.Context == "" {
		name = pod // within a cluster, all API servers have the same address
	}
	return kube.Printable(name, maxText)
}

// Page serves the live page.
type Page struct {
	o        Options
	assets   string // a version of style and script
	feed     feed
	podReads podReads
}

// New returns a page.
func New(o Options) *Page { return &Page{o: o, assets: versionOf(style, script)} }

// State is what /debug/state answers.
type State struct {
	Format    string    `json:"format"`
	Time      time.Time `json:"time"`
	Banner    Banner    `json:"banner"`
	Place     Place     `json:"place"`
	Version   string    `json:"version"`
	Started   time.Time `json:"started"`
	Leader    string    `json:"leader,omitempty"`
	Standby   bool      `json:"standby,omitempty"`    // the controllers of this process wait for the lead
	Contact   time.Time `json:"lastContact,omitzero"` // with the API server
	OldestAt  time.Time `json:"oldestWatch,omitzero"` // the last contact of the watch that is silent for longest
	OldestOf  string    `json:"oldestWatchOf,omitempty"`
	Attention []Trouble `json:"attention"`
	Omitted   int       `json:"attentionOmitted,omitempty"`
	Owners    int       `json:"owners"`
	// Owners that are paused, or not known, or have become not ready only lately.
	Paused      int     `json:"paused,omitempty"`
	Unknown     int     `json:"unknown,omitempty"`
	Progressing int     `json:"progressing,omitempty"`
	Queue       []Queue `json:"queue"`

	general     []Trouble // of Attention, without those of objects that are listed
	moreGeneral int
}

// Banner is the answer in one sentence.
type Banner struct {
	Well bool   `json:"well"`
	Text string `json:"text"`
}

// State returns the present state.
func (p *Page) State() State {
	now := time.Now()
	s := State{Format: Format, Time: now, Version: p.o.Version, Place: p.o.Place, Started: p.o.Started,
		Leader: p.o.Leader(), Contact: p.o.Contact(), Queue: p.queues()}
	s.Standby = p.standby()
	troubles, general := first{limit: maxTroubles}, first{limit: maxTroubles}
	p.ofProcess(func(t Trouble) { troubles.add(t); general.add(t) })
	g := p.glance()
	for _, c := range p.o.Controllers() {
		c.Owners(func(o *controller.Owner) {
			s.Owners++
			t := p.troubleOf(c, o, g)
			switch t.State {
			case well:
				return
			case unknown:
				s.Unknown++
				return
			case progressing:
				s.Progressing++
				return
			case paused:
				s.Paused++
			}
			troubles.add(t)
		})
	}
	s.Attention, s.Omitted = troubles.list, troubles.all-len(troubles.list)
	s.general, s.moreGeneral = general.list, general.all-len(general.list)
	if s.Attention == nil {
		s.Attention = []Trouble{}
	}
	for _, w := range controller.WatchStates(p.o.Controllers()...) {
		if !w.LastContact.IsZero() && (s.OldestAt.IsZero() || w.LastContact.Before(s.OldestAt)) {
			s.OldestAt, s.OldestOf = w.LastContact, w.Resource.GroupResource()
		}
	}
	s.Banner = banner(s, troubles.all-s.Paused, troubles.since)
	return s
}

// role is what the process is in the election of a leader; "": there is none.
func (p *Page) role() string {
	switch {
	case p.o.Leader() == "":
		return ""
	case p.standby():
		return "standby"
	}
	return "leader"
}

func (p *Page) standby() bool { return p.o.Standby != nil && p.o.Standby() }

// banner sums the state up in a sentence. An object paused on purpose needs no attention.
func banner(s State, troubles int, since time.Time) Banner {
	if troubles == 0 {
		text := fmt.Sprintf("All is well. %s as declared.",
			health.Count(s.Owners-s.Paused-s.Unknown-s.Progressing, "object is", "objects are"))
		if s.Progressing > 0 {
			text += fmt.Sprintf(" %s not ready yet.", health.Count(s.Progressing, "other is", "others are"))
		}
		if s.Unknown > 0 {
			text += fmt.Sprintf(" %s not known.", health.Count(s.Unknown, "other is", "others are"))
		}
		if s.Paused > 0 {
			text += fmt.Sprintf(" %s paused.", health.Count(s.Paused, "other is", "others are"))
		}
		return Banner{true, text}
	}
	worst := s.Attention[0]
	text := health.Count(troubles, "thing needs", "things need") + " attention"
	if !since.IsZero() {
		form := "15:04 UTC"
		if s.Time.Sub(since) > 12*time.Hour { // the time of the day alone could be that of today
			form = "2006-01-02 15:04 UTC"
		}
		text += " since " + since.UTC().Format(form)
	}
	why := worst.Reason
	if worst.State == wholeProcess {
		why = worst.Message
	}
	return Banner{false, fmt.Sprintf("%s; first: %s, %s", text, worst.Object(), why)}
}

// Queue is what a controller does.
type Queue struct {
	Controller string    `json:"controller"`
	Workers    int       `json:"workers"`
	Running    int       `json:"running"`
	Due        int       `json:"due"`
	Delayed    int       `json:"delayed"`
	Failing    int       `json:"failing"`
	Longest    float64   `json:"longestRunMs"`
	OldestDue  time.Time `json:"oldestDue,omitzero"`
}

func (p *Page) queues() []Queue {
	out := []Queue{}
	for _, c := range p.o.Controllers() {
		s := c.Stats()
		q := Queue{Controller: c.Name(), Workers: s.Workers, Running: s.Queue.Running, Due: s.Queue.Due,
			Delayed: s.Queue.Delayed, Failing: s.Failing, Longest: history.Millis(s.Queue.Longest)}
		if !(c.Elected() && p.standby()) { // on a standby, keys wait for the lease and not for a worker
			q.OldestDue = c.OldestDue()
		}
		out = append(out, q)
	}
	return out
}

// Hook is a program or an endpoint called by a controller. The times are upper bounds.
type Hook struct {
	Controller  string    `json:"controller"`
	Hook        string    `json:"hook"`
	Calls       uint64    `json:"calls"`
	Errors      uint64    `json:"errors"`
	P50         float64   `json:"p50Ms"`
	P99         float64   `json:"p99Ms"`
	LastError   string    `json:"lastError,omitempty"` // its kind; for readers with the right, Quoted
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	Failing     bool      `json:"failing,omitempty"` // its last call failed
	Parked      bool      `json:"parked,omitempty"`  // fails for all, and gets a call at a time
	FailsIn     []string  `json:"failsIn,omitempty"` // the namespaces with a failing hook; "": of parents without a namespace
	Quoted      string    `json:"-"`                 // the last error in the words of the hook
}

// maxHooks bounds an answer.
const maxHooks = 100

func (p *Page) hooks() []Hook {
	if p.o.Hooks == nil {
		return nil
	}
	all := p.o.Hooks()
	slices.SortStableFunc(all, func(a, b Hook) int {
		return -cmp.Or(compareBool(a.Parked, b.Parked), compareBool(a.Failing, b.Failing))
	})
	for i := range all {
		all[i].Controller = kube.Printable(all[i].Controller, maxText)
		if all[i].Quoted != "" && p.open() {
			all[i].LastError = kube.Printable(all[i].Quoted, maxText)
		}
	}
	return all[:min(len(all), maxHooks)]
}

// Watch is one scope of a mirror.
type Watch struct {
	Resource  string         `json:"resource"`
	Namespace string         `json:"namespace,omitempty"`
	Selector  string         `json:"selector,omitempty"`
	Phase     string         `json:"phase"`
	Parked    bool           `json:"parked,omitempty"`
	Objects   int            `json:"objects"`
	Bytes     int64          `json:"bytes,omitempty"`
	Contact   time.Time      `json:"lastContact,omitzero"`
	Bookmark  time.Time      `json:"lastBookmark,omitzero"`
	Restarts  map[string]int `json:"restarts,omitempty"`
	Code      int            `json:"code,omitempty"` // of HTTP, of the last request if it failed
	Problem   string         `json:"problem,omitempty"`
}

// maxWatches bounds an answer: with a namespace each there may be thousands.
const maxWatches = 500

// watches returns them, parked ones first, then those with a problem, and how many were left out.
func (p *Page) watches() (out []Watch, omitted int) {
	out = []Watch{}
	for _, w := range controller.WatchStates(p.o.Controllers()...) {
		one := Watch{Resource: w.Resource.GroupResource(), Namespace: w.Namespace, Selector: w.Labels,
			Phase:  string(w.Phase),
			Parked: w.Parked, Objects: w.Objects, Bytes: w.Bytes, Contact: w.LastContact, Bookmark: w.LastBookmark,
			Restarts: w.Counters.Reconnects}
		if w.Err != nil {
			one.Problem = "no answer"
			if s := kube.AsStatus(w.Err); s != nil {
				one.Code, one.Problem = s.Code, kube.Printable(s.Reason, maxText)
			}
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(a, b Watch) int {
		return cmp.Or(-compareBool(a.Parked, b.Parked), -compareBool(a.Problem != "", b.Problem != ""),
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace))
	})
	shown := out[:min(len(out), maxWatches)]
	return shown, len(out) - len(shown)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
