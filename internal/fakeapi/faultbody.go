package fakeapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// faultBody is a Fault in the body of PUT /skiff/faults. Its Rewrite is one of those of
// this package, by name: poison makes all objects undecodable that are selected.
type faultBody struct {
	Verb        string  `json:"verb"`
	Resource    string  `json:"resource"`
	Namespace   string  `json:"namespace"`
	Name        string  `json:"name"`
	Path        string  `json:"path"`
	UserAgent   string  `json:"userAgent"`
	Skip        int     `json:"skip"`
	Times       int     `json:"times"`
	Probability float64 `json:"probability"`

	Delay       string     `json:"delay"`
	AnswerDelay string     `json:"answerDelay"`
	Reply       *replyBody `json:"reply"`
	Cut         string     `json:"cut"`
	At          int        `json:"at"`
	By          string     `json:"by"`
	GoAway      bool       `json:"goAway"`
	Chunk       int        `json:"chunk"`
	Rewrite     string     `json:"rewrite"`
	Watch       watchBody  `json:"watch"`
}

type replyBody struct {
	Code        int    `json:"code"`
	Reason      string `json:"reason"`
	Message     string `json:"message"`
	Body        string `json:"body"`
	ContentType string `json:"contentType"`
	Empty       bool   `json:"empty"`
	RetryAfter  string `json:"retryAfter"`
}

type watchBody struct {
	EventDelay  string    `json:"eventDelay"`
	Gone        string    `json:"gone"`
	Bookmarks   string    `json:"bookmarks"`
	After       int       `json:"after"`
	End         string    `json:"end"`
	Error       replyBody `json:"error"`
	Duplicate   bool      `json:"duplicate"`
	Replay      bool      `json:"replay"`
	UnknownType bool      `json:"unknownType"`
	Reorder     bool      `json:"reorder"`
}

// The names of the values of a Fault.
var (
	cutNames = map[string]Cut{"": NoCut, "before": CutBefore, "after": CutAfter, "body": CutBody, "stall": StallBody,
		"blackhole": Blackhole}
	byNames      = map[string]By{"": ByStream, "stream": ByStream, "close": ByClose, "reset": ByReset}
	rewriteNames = map[string]func([]byte) []byte{"": nil, "poison": Poison(""), "huge": Huge(hugeBytes),
		"kindless": Kindless(), "nulls": Nulls()}
	goneNames     = map[string]Gone{"": NotGone, "stream": GoneInStream, "http": GoneAsHTTP}
	bookmarkNames = map[string]BookmarkMode{"": BookmarksAsUsual, "never": BookmarksNever, "storm": BookmarksStorm,
		"atEnd": BookmarksAtEnd, "ofAnother": BookmarksOfAnother, "unmarked": BookmarksUnmarked,
		"behind": BookmarksBehind}
	endNames = map[string]End{"": NoEnd, "cleanly": EndCleanly, "cut": EndCut, "midFrame": EndMidFrame,
		"silent": EndSilent, "error": EndWithError}
)

// hugeBytes is more than usual limits for an object, of etcd and of clients, allow.
const hugeBytes = 3 << 20

// fault returns the Fault; the error starts with the name of the field.
func (b faultBody) fault() (Fault, error) {
	f := Fault{Verb: b.Verb, Resource: b.Resource, Namespace: b.Namespace, Name: b.Name, Path: b.Path,
		UserAgent: b.UserAgent, Skip: b.Skip, Times: b.Times, Probability: b.Probability, At: b.At, Chunk: b.Chunk,
		GoAway: b.GoAway,
		Watch: WatchFault{After: b.Watch.After, Duplicate: b.Watch.Duplicate, Replay: b.Watch.Replay,
			UnknownType: b.Watch.UnknownType, Reorder: b.Watch.Reorder, EndError: ErrorArg{Code: b.Watch.Error.Code,
				Reason: b.Watch.Error.Reason, Message: b.Watch.Error.Message}}}
	if b.Reply != nil {
		r := Reply(*b.Reply)
		f.Reply = &r
		if r.Code < 200 || r.Code > 599 {
			return f, fmt.Errorf("reply.code: %d is no status of an answer", r.Code)
		}
	}
	for name, n := range map[string]int{"skip": b.Skip, "times": b.Times, "at": b.At, "chunk": b.Chunk,
		"watch.after": b.Watch.After} {
		if n < 0 {
			return f, fmt.Errorf("%s: %d is negative", name, n)
		}
	}
	if b.Probability < 0 || b.Probability > 1 {
		return f, fmt.Errorf("probability: %v is not between 0 and 1", b.Probability)
	}
	var errs [9]error
	f.Delay, errs[0] = durationOf("delay", b.Delay)
	f.AnswerDelay, errs[1] = durationOf("answerDelay", b.AnswerDelay)
	f.Watch.EventDelay, errs[2] = durationOf("watch.eventDelay", b.Watch.EventDelay)
	f.Cut, errs[3] = named("cut", b.Cut, cutNames)
	f.Watch.Gone, errs[4] = named("watch.gone", b.Watch.Gone, goneNames)
	f.Watch.Bookmarks, errs[5] = named("watch.bookmarks", b.Watch.Bookmarks, bookmarkNames)
	f.Watch.End, errs[6] = named("watch.end", b.Watch.End, endNames)
	f.By, errs[7] = named("by", b.By, byNames)
	f.Rewrite, errs[8] = named("rewrite", b.Rewrite, rewriteNames)
	return f, cmp.Or(errs[:]...)
}

func durationOf(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s: %q is no duration such as 1.5s", field, text)
	}
	return d, nil
}

// named returns the value of a name.
func named[T any](field, name string, values map[string]T) (T, error) {
	v, ok := values[name]
	if !ok {
		return v, fmt.Errorf("%s: %q is none of %s", field, name,
			strings.Join(slices.Sorted(maps.Keys(values))[1:], ", "))
	}
	return v, nil
}
