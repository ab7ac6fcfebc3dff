package faults

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"skiff/internal/fakeapi/answer"
)

// maxFaults is how many faults can be set at the same time: each looks at each request.
const maxFaults = 100

// Parse reads the faults of a body such as {"faults":[{"verb":"list","reply":{"code":503}}]}. Durations are texts
// such as "1.5s"; what Go has a constant or a function for goes by a name.
func Parse(body []byte) ([]Fault, error) {
	var in struct {
		Faults []Fault `json:"faults"`
	}
	err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true), json.WithUnmarshalers(readers))
	var bad *json.SemanticError
	switch {
	case errors.As(err, &bad) && bad.Err != nil:
		return nil, fmt.Errorf("%s: %w", fieldAt(string(bad.JSONPointer)), bad.Err)
	case err != nil:
		return nil, fmt.Errorf("read the faults: %w", err)
	case len(in.Faults) > maxFaults:
		return nil, fmt.Errorf("%d faults are too many: at most %d", len(in.Faults), maxFaults)
	}
	for i, f := range in.Faults {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("faults[%d].%w", i, err)
		}
	}
	return in.Faults, nil
}

// fieldAt returns faults[1].watch.end for /faults/1/watch/end.
func fieldAt(pointer string) string {
	out := ""
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch {
		case strings.Trim(name, "0123456789") == "":
			out += "[" + name + "]"
		case out == "":
			out = name
		default:
			out += "." + name
		}
	}
	return out
}

var readers = json.JoinUnmarshalers(json.UnmarshalFunc(duration),
	json.UnmarshalFunc(func(b []byte, z *answer.Zip) error {
		return named(z, bytes.Trim(b, `"`), "", "all", "members", "unflushed")
	}))

func duration(b []byte, d *time.Duration) error {
	text := string(bytes.Trim(b, `"`))
	if text == "" {
		return nil
	}
	var err error
	if *d, err = time.ParseDuration(text); err != nil || *d < 0 {
		return fmt.Errorf("%q is no duration such as 1.5s", text)
	}
	return nil
}

// check refuses numbers that make no sense; the error starts with the name of the field.
func (f *Fault) check() error {
	if f.Reply != nil && (f.Reply.Code < 200 || f.Reply.Code > 599) {
		return fmt.Errorf("reply.code: %d is no status of an answer", f.Reply.Code)
	}
	if f.Probability < 0 || f.Probability > 1 {
		return fmt.Errorf("probability: %v is not between 0 and 1", f.Probability)
	}
	for name, n := range map[string]int{"skip": f.Skip, "times": f.Times, "at": f.At, "chunk": f.Chunk,
		"gather": f.Gather, "replica": f.Replica, "perSecond": f.PerSecond, "inFlight": f.InFlight,
		"watch.after": f.Watch.After} {
		if n < 0 {
			return fmt.Errorf("%s: %d is negative", name, n)
		}
	}
	return nil
}

// UnmarshalText reads the name of a Cut.
func (c *Cut) UnmarshalText(name []byte) error {
	return named(c, name, "", "before", "after", "body", "stall", "blackhole")
}

// UnmarshalText reads the name of a By.
func (by *By) UnmarshalText(name []byte) error { return named(by, name, "stream", "close", "reset") }

// UnmarshalText reads the name of a Gone.
func (g *Gone) UnmarshalText(name []byte) error { return named(g, name, "", "stream", "http") }

// UnmarshalText reads the name of a BookmarkMode.
func (m *BookmarkMode) UnmarshalText(name []byte) error {
	return named(m, name, "", "never", "storm", "atEnd", "ofAnother", "unmarked", "behind")
}

// UnmarshalText reads the name of an End.
func (e *End) UnmarshalText(name []byte) error {
	return named(e, name, "", "cleanly", "cut", "midFrame", "silent", "error")
}

// UnmarshalText reads the name of a Rewrite.
func (r *Rewrite) UnmarshalText(name []byte) error {
	var at int
	if err := named(&at, name, "", "poison", "huge", "kindless", "nulls", "stale"); err != nil || at == 0 {
		return err
	}
	*r = []Rewrite{Poison(""), Huge(hugeBytes), Kindless(), Nulls(), Stale()}[at-1]
	return nil
}

// hugeBytes is more than usual limits for an object, of etcd and of clients, allow.
const hugeBytes = 3 << 20

// named sets the value of an enumeration by its name; "" is the first value.
func named[T ~int](v *T, name []byte, names ...string) error {
	at := slices.Index(names, string(name))
	if at < 0 && len(name) > 0 {
		known := slices.Sorted(slices.Values(names))
		if known[0] == "" {
			known = known[1:]
		}
		return fmt.Errorf("%q is none of %s", name, strings.Join(known, ", "))
	}
	*v = T(max(at, 0))
	return nil
}
