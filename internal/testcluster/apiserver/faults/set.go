package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
)

// maxFaults is how many faults can be set at the same time: each looks at each request.
const maxFaults = 100

// maxLimit bounds the numbers of Limits: net/http takes less.
const maxLimit = 1 << 30

// Set is what a body of PUT /skiff/faults or the file of --faults has.
type Set struct {
	Seed   uint64       `json:"seed"`   // of the chances; 0: the server's
	Limits httpd.Limits `json:"limits"` // of the server's connections, from its start
	Faults []Fault      `json:"faults"`
}

// Parse reads a Set such as {"faults":[{"verb":"list","reply":{"code":503}}]}. Durations are texts such as "1.5s";
// what Go has a constant or a function for goes by a name.
func Parse(body []byte) (in Set, err error) {
	v, err := patch.Decode(body)
	if err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, new(any))); ok {
			err = fmt.Errorf("line %d: %w", 1+bytes.Count(body[:syntax.Offset], []byte("\n")), syntax)
		}
		return in, fmt.Errorf("read the faults, which are JSON: %w", err)
	}
	if err = prepare(v, reflect.TypeOf(in), ""); err != nil {
		return in, err
	}
	text, err := patch.Encode(v)
	if err == nil {
		err = kube.Unmarshal(text, &in)
	}
	switch {
	case err != nil:
		return in, err
	case len(in.Faults) > maxFaults:
		return in, fmt.Errorf("%d faults are too many: at most %d", len(in.Faults), maxFaults)
	}
	if n := in.Limits; min(n.Streams, n.HeaderBytes) < 0 || max(n.Streams, n.HeaderBytes) > maxLimit {
		return in, fmt.Errorf("limits.streams and limits.headerBytes: want numbers from 0 to %d", maxLimit)
	}
	for i, f := range in.Faults {
		if err := f.check(); err != nil {
			return in, fmt.Errorf("faults[%d].%w", i, err)
		}
	}
	return in, nil
}

// prepare refuses fields that a type does not have, and turns texts into what package kube reads into the others.
func prepare(v any, t reflect.Type, at string) (err error) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if err == nil && t.Kind() == reflect.Slice {
				err = prepare(item, t.Elem(), fmt.Sprintf("%s[%d]", at, i))
			}
		}
	case map[string]any:
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for name, value := range v {
			path := strings.TrimPrefix(at+"."+name, ".")
			field, ok := fieldOf(t, name)
			if !ok {
				return fmt.Errorf("%s: unknown field", path)
			}
			switch names := enumerations[field]; {
			case value == nil: // as if it was left out
			case names != nil:
				v[name], err = named(fmt.Sprint(value), names)
			case field == reflect.TypeFor[time.Duration]():
				v[name], err = duration(fmt.Sprint(value), name == "clock")
			default:
				if err := prepare(value, field, path); err != nil {
					return err
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return err
}

func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if t.Field(i).Tag.Get("json") == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}

// duration reads a duration, which only may be negative if signed is set.
func duration(text string, signed bool) (int64, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 && !signed {
		return 0, fmt.Errorf("%q is no duration such as 1.5s", text)
	}
	return int64(d), nil
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
	return f.checkEffect()
}

// checkEffect refuses a fault, or a field of one, that would do nothing.
func (f *Fault) checkEffect() error {
	does, watch := *f, f.Watch
	does.Verb, does.Resource, does.Namespace, does.Name, does.Path, does.UserAgent = "", "", "", "", "", ""
	does.Replica = 0
	does.Skip, does.Times, does.Probability, does.PerSecond, does.InFlight = 0, 0, 0, 0, 0
	does.At, does.By, does.Watch.After = 0, 0, 0
	for _, c := range []struct {
		idle        bool
		field, hint string
	}{
		{f.At > 0 && f.Cut != CutBody && f.Cut != StallBody, "at", "set cut to body or stall"},
		{f.By != ByStream && f.Cut == NoCut && watch.End == NoEnd, "by", "set cut or watch.end"},
		{watch.After > 0 && watch.End == NoEnd, "watch.after", "set watch.end"},
		{watch != WatchFault{} && f.Verb != "" && f.Verb != "watch", "watch", "the verb is " + f.Verb},
		{reflect.ValueOf(does).IsZero(), "verb", "say what happens: delay, reply, cut, watch, ..."},
	} {
		if c.idle {
			return fmt.Errorf("%s: has no effect: %s", c.field, c.hint)
		}
	}
	return nil
}

// enumerations has the names of the values of each.
var enumerations = map[reflect.Type][]string{
	reflect.TypeFor[Cut]():          {"", "before", "after", "body", "stall", "blackhole", "switch"},
	reflect.TypeFor[By]():           {"stream", "close", "reset"},
	reflect.TypeFor[Gone]():         {"", "stream", "http"},
	reflect.TypeFor[BookmarkMode](): {"", "never", "storm", "atEnd", "ofAnother", "unmarked", "behind"},
	reflect.TypeFor[End]():          {"", "cleanly", "cut", "midFrame", "silent", "error"},
	reflect.TypeFor[httpd.Zip]():    {"", "all", "members", "unflushed"},
}

// UnmarshalText reads the name of a Rewrite, with an argument after a colon: poison:NAME, huge:MEGABYTES.
func (r *Rewrite) UnmarshalText(text []byte) error {
	name, arg, _ := strings.Cut(string(text), ":")
	at, err := named(name, []string{"", "poison", "huge", "kindless", "nulls", "stale"})
	if err != nil || at == 0 {
		return err
	}
	size := hugeMiB
	if name == "huge" && arg != "" {
		if size, err = strconv.Atoi(arg); err != nil || size < 1 || size > maxHugeMiB {
			return fmt.Errorf("%q: want huge:N with a number of MiB from 1 to %d", text, maxHugeMiB)
		}
	} else if name != "poison" && arg != "" {
		return fmt.Errorf("%q: %s takes no argument", text, name)
	}
	*r = []Rewrite{Poison(arg), Huge(size << 20), Kindless(), Nulls(), Stale()}[at-1]
	return nil
}

const (
	// hugeMiB is more than usual limits for an object, of etcd and of clients, allow.
	hugeMiB = 3
	// maxHugeMiB bounds what one object may take in this process.
	maxHugeMiB = 64
)

// named returns the value of an enumeration by its name; "" is the first value.
func named(name string, names []string) (int64, error) {
	at := slices.Index(names, name)
	if at < 0 && name != "" {
		known := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(n string) bool { return n == "" })
		return 0, fmt.Errorf("%q is none of %s", name, strings.Join(known, ", "))
	}
	return int64(max(at, 0)), nil
}

// Rewrite changes the body of an answer, or the object of an event.
type Rewrite func(body []byte) []byte

// Poison returns a Rewrite that makes the object with this name undecodable, or all with "", alone or in a list: they
// keep their metadata, and spec and status become strings.
func Poison(name string) Rewrite {
	return rewriteObjects(func(o map[string]any) {
		if name == "" || obj.String(o, "metadata", "name") == name {
			o["spec"], o["status"] = "poison", "poison"
		}
	})
}

// Huge returns a Rewrite that adds an annotation of n bytes to each object.
func Huge(n int) Rewrite {
	return rewriteObjects(func(o map[string]any) {
		obj.Set(o, strings.Repeat("x", n), "metadata", "annotations", "huge")
	})
}

// Kindless returns a Rewrite that takes apiVersion and kind off each object.
func Kindless() Rewrite {
	return rewriteObjects(func(o map[string]any) {
		delete(o, "kind")
		delete(o, "apiVersion")
	})
}

// Nulls returns a Rewrite that makes spec, status, labels and owner references null.
func Nulls() Rewrite {
	return rewriteObjects(func(o map[string]any) {
		o["spec"], o["status"] = nil, nil
		obj.Set(o, nil, "metadata", "labels")
		obj.Set(o, nil, "metadata", "ownerReferences")
	})
}

// Stale returns a Rewrite by which aggregated discovery says of each group that it has not been reached for a while.
func Stale() Rewrite {
	return rewriteObjects(func(group map[string]any) {
		for _, version := range obj.Maps(group, "versions") {
			version["freshness"] = "Stale"
		}
	})
}

// rewriteObjects calls change on an object, or on each item of a list.
func rewriteObjects(change func(map[string]any)) Rewrite {
	return func(body []byte) []byte {
		v, _, err := obj.Decode(body)
		o, ok := v.(map[string]any)
		if err != nil || !ok {
			return body // not an object
		}
		if items := obj.Maps(o, "items"); items != nil {
			for _, item := range items {
				change(item)
			}
		} else {
			change(o)
		}
		return httpd.Encode(o)
	}
}
