package wire

import (
	"fmt"
	"strings"
)

const (
	// maxEvents bounds the Events of an answer, which people read.
	maxEvents = 10
	// maxReason is the limit of the API server.
	maxReason = 128
	// maxMessage is the limit of the API server.
	maxMessage = 1 << 10
)

// Event is an Event requested by a hook.
type Event struct {
	Type    string // Normal or Warning
	Reason  string
	Message string
	Kind    string // of the child concerned; "": the parent is concerned
	Name    string
}

// eventsOf reads the events of an answer. Warnings name the invalid events: a bad Event never fails a sync.
func eventsOf(v any) (events []Event, warnings []string) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, []string{typeError("events", "a list", v).Error()}
	}
	if len(list) > maxEvents {
		warnings = append(warnings, fmt.Sprintf("events: has %d items, only the first %d are recorded", len(list),
			maxEvents))
		list = list[:maxEvents]
	}
	for i, v := range list {
		path := fmt.Sprintf("events[%d]", i)
		event, err := eventOf(v, path)
		if err != nil {
			warnings = append(warnings, err.Error())
			continue
		}
		if len(event.Reason) > maxReason || len(event.Message) > maxMessage {
			warnings = append(warnings, fmt.Sprintf("%s: is cut: a reason has at most %d bytes and a message %d", path,
				maxReason, maxMessage))
		}
		event.Reason, event.Message = cut(event.Reason, maxReason), cut(event.Message, maxMessage)
		events = append(events, event)
	}
	return events, warnings
}

func eventOf(v any, path string) (e Event, err error) {
	fields, ok := v.(map[string]any)
	if !ok {
		return e, typeError(path, "an object", v)
	}
	if e.Type, err = textOf(fields, path, "type"); err != nil {
		return e, err
	}
	if e.Reason, err = textOf(fields, path, "reason"); err != nil {
		return e, err
	}
	if e.Message, err = textOf(fields, path, "message"); err != nil {
		return e, err
	}
	about, err := objectOf(fields, path, "object")
	if err != nil {
		return e, err
	}
	if e.Kind, err = textOf(about, path+".object", "kind"); err != nil {
		return e, err
	}
	if e.Name, err = textOf(about, path+".object", "name"); err != nil {
		return e, err
	}
	switch {
	case e.Type != "Normal" && e.Type != "Warning":
		return e, fmt.Errorf("%s.type: must be Normal or Warning, is %s", path, quote(e.Type))
	case e.Reason == "":
		return e, missing(path + ".reason")
	case about != nil && (e.Kind == "" || e.Name == ""):
		return e, fmt.Errorf("%s.object: must have the kind and the name of a child", path)
	}
	return e, nil
}

// cut returns at most limit bytes of s.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
