package plan

import (
	"errors"
	"fmt"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// nextSteps say what to do about what is in the way of a child.
var nextSteps = map[apply.Outcome]string{
	apply.Foreign:    "", // it depends on whose it is
	apply.Contested:  "stop what changes it",
	apply.Waiting:    "plan again when it is gone",
	apply.Conflict:   "plan again: it changed meanwhile",
	apply.PortTaken:  "free the node port, or declare another one",
	apply.NoNodePort: "delete a Service that has a node port",
}

func inTheWay(o apply.Outcome) bool {
	_, ok := nextSteps[o]
	return ok
}

// blocked is the line about a child that something is in the way of, or that the server has refused.
func (b *builder) blocked(l *Line, c *child) *Line {
	r := c.result
	p := r.Why()
	p.Subject = "" // the line begins with the name
	text := p.Note()
	switch l.Next = nextSteps[r.Outcome]; {
	case r.Err != nil:
		text, l.Next = kube.Explain(r.Err), b.refused(r.Err)
	case p.Reason == apply.NotManaged:
		l.Next = fmt.Sprintf("delete it, or set %s: \"true\" on %s", apply.AdoptAnnotation, b.owner.Name)
	case r.Outcome == apply.Foreign:
		l.Next = "delete it, or give " + b.owner.Name + " another name"
	case r.Outcome == apply.Conflict && p.Reason == apply.NodePort:
		l.Next = nextSteps[apply.PortTaken]
	}
	l.Op = Blocked
	l.Error = b.secrets.cut(text)
	return l
}

// refused says what to do about the answer of a server, and notes whether it is a refusal.
func (b *builder) refused(err error) (next string) {
	b.covered = true
	if s := kube.AsStatus(err); s == nil || s.Code >= 500 || kube.IsUnauthorized(s) {
		b.owner.Failed = true
	}
	switch {
	case kube.IsInvalid(err):
		return "correct the spec of " + b.owner.Name
	case kube.IsForbidden(err):
		return "change " + b.owner.Name + ", or the policy or quota that refuses it"
	case errors.As(err, new(*kube.NoAnswerError)):
		return "plan again"
	}
	return ""
}

// failed adds what kept the owner from being planned.
func (b *builder) failed(err error) {
	if b.covered {
		return
	}
	blocks := controller.IsTerminal(err)
	text := err.Error()
	l := Line{Op: Blocked}
	switch reason := controller.ReasonOf(err); {
	case reason == "InvalidSpec":
		l.Next = "correct the spec of " + b.owner.Name
	case reason == "TemplateRefused":
		l.Next = "correct spec.template of " + b.owner.Name
	case reason == controller.HookFailed:
		blocks = false
		l.Detail = fmt.Sprintf("its %d children were not planned", b.left)
		if b.left == 1 {
			l.Detail = "its child was not planned"
		}
	case kube.AsStatus(err) != nil:
		text = kube.Explain(err)
	}
	l.Error = b.secrets.cut(text)
	b.owner.Failed = !blocks
	b.owner.Lines = append(b.owner.Lines, l)
}
