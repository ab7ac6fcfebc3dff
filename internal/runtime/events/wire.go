package events

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"skiff/internal/runtime/kube"
)

// resource is where Events are written. `kubectl describe` reads the same objects through the core group.
var resource = kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}

// Rights are what a Recorder needs. A controller that records Events declares them as its own.
var Rights = []kube.Right{
	{Resource: resource, Verbs: []string{"create", "patch"}, Why: "what was done, and why"},
}

const (
	maxNote  = 1024 // bytes of a note (events.k8s.io validation)
	maxField = 128  // bytes of reason, action and reportingInstance (the same)
	// microTime is meta/v1 MicroTime: RFC 3339 with six digits.
	microTime = "2006-01-02T15:04:05.000000Z07:00"
)

type reference struct {
	APIVersion      string `json:"apiVersion,omitempty"`
	Kind            string `json:"kind,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type wireSeries struct {
	Count            int    `json:"count"`
	LastObservedTime string `json:"lastObservedTime"`
}

type wireEvent struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	EventTime           string      `json:"eventTime"`
	ReportingController string      `json:"reportingController"`
	ReportingInstance   string      `json:"reportingInstance"`
	Action              string      `json:"action"`
	Reason              string      `json:"reason"`
	Type                Type        `json:"type"`
	Regarding           reference   `json:"regarding"`
	Related             *reference  `json:"related,omitzero"`
	Note                string      `json:"note"`
	Series              *wireSeries `json:"series,omitzero"`
}

func (r *Recorder) body(run *series, name string) wireEvent {
	e := run.first
	w := wireEvent{
		APIVersion: resource.APIVersion(), Kind: resource.Kind,
		EventTime:           e.at.UTC().Format(microTime),
		ReportingController: r.controller,
		ReportingInstance:   r.instance,
		Action:              cut(cmp.Or(e.Action, e.Reason), maxField),
		Reason:              cut(e.Reason, maxField),
		Type:                e.Type,
		Regarding:           reference(e.Regarding),
		Note:                e.Note, // printable, see take
	}
	w.Metadata.Name, w.Metadata.Namespace = name, namespaceOf(e.Regarding)
	if e.Related != (Object{}) {
		related := reference(e.Related)
		w.Related = &related
	}
	if run.count > 1 {
		w.Series = seriesOf(run)
	}
	return w
}

func seriesOf(run *series) *wireSeries {
	return &wireSeries{Count: run.count, LastObservedTime: run.last.UTC().Format(microTime)}
}

func seriesPatch(run *series) any { return map[string]any{"series": seriesOf(run)} }

// namespaceOf returns where the Events of an object live.
func namespaceOf(o Object) string { return cmp.Or(o.Namespace, "default") }

// eventName returns "web.17b2f0c3a1d4e5f6": the object's name and the time in hexadecimal nanoseconds, as other
// controllers name theirs. Where that is no valid name, a random one.
func eventName(object string, now time.Time) string {
	name := fmt.Sprintf("%s.%x", object, now.UnixNano())
	if kube.ValidName(name) {
		return name
	}
	return randomName()
}

// randomName returns a valid name with 128 bits of chance.
func randomName() string { return strings.ToLower(rand.Text()) }

// printable returns a note as it may be shown in a terminal: it quotes errors of servers and names of others.
func printable(note string) string { return cut(kube.Printable(note, maxNote), maxNote) }

// cut shortens s to at most n bytes, between two characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
