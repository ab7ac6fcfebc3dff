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
	what             string // the child, pod or workload that was written
	hook             string
	hookSaid         []string // lines
	cause            string
	outcome          string // "": not the end of a run
	took             string
	err              string
	others           []string // name=value
	wrote, fromAHook bool
	failed           bool // logged as an error
}

// set puts a value into the field for its name.
func (e *entry) set(name string, value any) {
	text := kube.Printable(consoleText(value), maxLogged)
	switch name {
	case "controller":
		e.of.controller = text
	case "key":
		e.of.key = text
		if key, ok := value.(kube.Key); ok {
			e.of.namespace = key.Namespace
		}
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
	case "said":
		e.hookSaid, e.fromAHook = said(value), true
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

// said returns the lines that a hook has said.
func said(value any) (lines []string) {
	for line := range strings.SplitSeq(consoleText(value), "\n") {
		lines = append(lines, kube.Printable(line, maxLogged))
	}
	return lines
}

// consoleText returns the text of a value; for an error of a hook, the hook's own message.
func consoleText(value any) string {
	switch v := value.(type) {
	case error:
		return textOf(func() string { return call.Said(v) })
	case fmt.Stringer:
		return textOf(v.String)
	}
	return fmt.Sprint(value)
}

// said returns the message with the names of children.
func (e *entry) said() string { return strings.TrimSpace(e.message + " " + e.what) }

// rest returns the values without a field, as name=value.
func (e *entry) rest() string {
	if len(e.others) == 0 {
		return ""
	}
	return "  " + strings.Join(e.others, " ")
}
