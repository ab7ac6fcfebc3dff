package cli

import (
	"fmt"
	"strings"

	"skiff/internal/hooks/call"
	"skiff/internal/runtime/kube"
)

// entry is a line of the log.
type entry struct {
	level            int
	message          string
	warns            bool
	of               run
	what             string // the child, the pod or the workload that something was done to
	hook, hookLine   string
	cause            string
	outcome          string // "": it is not the end of a run
	took             string
	err              string
	others           []string // name=value
	wrote, fromAHook bool
	failed           bool // it is an error
}

// set puts a value of the line where its name says that it belongs.
func (e *entry) set(name string, value any) {
	text := kube.Printable(consoleText(value), maxLogged)
	switch name {
	case "controller":
		e.of.controller = text
	case "key":
		e.of.key = text
	case "child", "pod", "target":
		if e.what != "" {
			e.what += ", "
		}
		if name == "pod" {
			text = "Pod " + text
		}
		e.what += text
	case "hook":
		e.hook = text
	case "line":
		e.hookLine, e.fromAHook = text, true
	case "cause":
		e.cause = text
	case "outcome":
		e.outcome = text
	case "duration_ms":
		e.took = text + " ms"
		if ms, ok := value.(float64); ok && ms >= 1000 {
			e.took = fmt.Sprintf("%.1f s", ms/1000)
		} else if ok && ms >= 10 {
			e.took = fmt.Sprintf("%.0f ms", ms)
		}
	case "writes":
		e.wrote = true
	case "error", "text", "problem", "message":
		e.err = text
	case "uid", "failures", "auditID", "reason", "note", "differences": // -v 1, status and the page have them
		if e.level == 0 {
			return
		}
		fallthrough
	default:
		e.others = append(e.others, name+"="+text)
	}
}

// consoleText returns the text of a value; of an error of a hook, what the hook said.
func consoleText(value any) string {
	switch v := value.(type) {
	case error:
		return textOf(func() string { return call.Said(v) })
	case fmt.Stringer:
		return textOf(v.String)
	}
	return fmt.Sprint(value)
}

// said is the message, and what it is about.
func (e *entry) said() string { return strings.TrimSpace(e.message + " " + e.what) }

// rest are the values that have no place of their own.
func (e *entry) rest() string {
	if len(e.others) == 0 {
		return ""
	}
	return "  " + strings.Join(e.others, " ")
}
