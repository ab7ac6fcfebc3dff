package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

const (
	// MaxChildren is how many children an answer may have. The API server of a large cluster has some 100,000 objects
	// of one kind.
	MaxChildren = 10_000
	// maxResync is the longest wait an answer can ask for.
	maxResync = 365 * 24 * time.Hour
)

// Answer is the answer of sync or finalize.
type Answer struct {
	// Status is nil where it is missing or null.
	Status map[string]any
	// Children are in the order of the answer.
	Children []Child
	// Labels and Annotations are changes to a decorated object; nil removes a key.
	Labels, Annotations map[string]*string
	ResyncAfter         time.Duration // 0: none
	Finalized           bool
	Events              []Event
	// Warnings name events that were dropped or cut.
	Warnings []string
}

// Options are the facts to check an answer against.
type Options struct {
	Composite bool
	// Finalizing says that finalize gave the answer, which needs no children with "finalized": true.
	Finalizing bool
	// Strict refuses unknown and repeated fields.
	Strict    bool
	Parent    kube.Key
	ParentUID string
	Kinds     []kube.Resource // of the declared children
}

// Decode reads an answer of sync or finalize and checks all of it. An error begins with the path of the fault.
func Decode(body []byte, o Options) (*Answer, error) {
	object, err := decode(body, o.Strict)
	if err != nil {
		return nil, err
	}
	list, fields := "children", []string{"status", "children"}
	if !o.Composite {
		list, fields = "attachments", []string{"status", "attachments", "labels", "annotations"}
	}
	fields = append(fields, "resyncAfterSeconds", "finalized", "events", "id")
	if o.Strict {
		if err := known(object, "", fields...); err != nil {
			return nil, err
		}
	}
	a := &Answer{}
	if a.Status, err = objectOf(object, "", "status"); err != nil {
		return nil, err
	}
	if a.ResyncAfter, err = resyncOf(object); err != nil {
		return nil, err
	}
	if a.Finalized, _, err = fieldOf[bool](object, "", "finalized", "a boolean"); err != nil {
		return nil, err
	}
	if !o.Composite {
		if a.Labels, err = changesOf(object, "labels"); err != nil {
			return nil, err
		}
		if a.Annotations, err = changesOf(object, "annotations"); err != nil {
			return nil, err
		}
	}
	items, err := listOf(object, "", list)
	if err != nil {
		return nil, err
	}
	if err := o.complete(object, list, a.Finalized); err != nil {
		return nil, err
	}
	if a.Children, err = o.children(items, list); err != nil {
		return nil, err
	}
	a.Events, a.Warnings = eventsOf(object["events"])
	return a, nil
}

// complete refuses an object that may be no answer at all, say a line of a log: children that are missing would be
// deleted. A decorator without attachments may answer with any field of the contract.
func (o *Options) complete(object map[string]any, list string, finalized bool) error {
	if _, ok := object[list]; ok || finalized && o.Finalizing {
		return nil
	}
	if o.Composite || len(o.Kinds) > 0 {
		return fmt.Errorf("it has no %s: say %q: [] if there are none", list, list)
	}
	for _, name := range []string{"labels", "annotations", "status", "resyncAfterSeconds", "finalized", "events"} {
		if _, ok := object[name]; ok {
			return nil
		}
	}
	return errors.New(`it has none of labels, annotations and status: say "labels": {} if nothing is to change`)
}

func resyncOf(object map[string]any) (time.Duration, error) {
	var seconds float64
	switch v := object["resyncAfterSeconds"].(type) {
	case nil:
	case int64:
		seconds = float64(v)
	case float64:
		seconds = v
	default:
		return 0, typeError("resyncAfterSeconds", "a number", v)
	}
	if seconds >= maxResync.Seconds() {
		return maxResync, nil
	}
	return max(0, time.Duration(seconds*float64(time.Second))), nil
}

// changesOf reads labels or annotations, of which null removes one.
func changesOf(object map[string]any, name string) (map[string]*string, error) {
	fields, err := objectOf(object, "", name)
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	changes := make(map[string]*string, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch v := fields[key].(type) {
		case nil:
			changes[key] = nil
		case string:
			changes[key] = &v
		default:
			return nil, typeError(patch.Join(name, kube.Printable(key, maxQuoted)), "a string or null", v)
		}
	}
	return changes, nil
}
