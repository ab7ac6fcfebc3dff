package plan

import (
	"errors"
	"fmt"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// nextSteps say how to remove the obstacle of a child.
var nextSteps = map[apply.Outcome]string{
	apply.Foreign:    "", // depends on the owner of the object
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

// blocked is the line about a child with an obstacle, or refused by the server.
func (b *builder) blocked(l *Line, c *child) *Line {
	r := c.result
	p := r.Why()
	p.Subject = "" // the line begins with the name
	switch p.Next = nextSteps[r.Outcome]; {
	case r.Err != nil:
		p = health.Problem{Reason: controller.ReasonOf(r.Err), Quoted: kube.Explain(r.Err), Next: b.refused(r.Err)}
	case p.Reason == apply.NotManaged:
		p.Next = fmt.Sprintf("delete it, or set %s: \"true\" on %s", apply.AdoptAnnotation, b.owner.Name)
	case r.Outcome == apply.Foreign:
		p.Next = "delete it, or give " + b.owner.Name + " another name"
	case r.Outcome == apply.Conflict && p.Reason == apply.NodePort:
		p.Next = nextSteps[apply.PortTaken]
	}
	l.Op, l.Problem = Blocked, b.shown(p)
	return l
}

// shown returns a Problem without the values of Secrets.
func (b *builder) shown(p health.Problem) *health.Problem {
	p.Public, p.Quoted = b.secrets.cut(p.Public), b.secrets.cut(p.Quoted)
	return &p
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

// failed adds the error that kept the owner from being planned.
func (b *builder) failed(err error) {
	if b.covered {
		return
	}
	blocks := controller.IsTerminal(err)
	l := Line{Op: Blocked}
	p := health.Problem{Reason: controller.ReasonOf(err), Quoted: err.Error()}
	switch {
	case p.Reason == "InvalidSpec":
		p.Next = "correct the spec of " + b.owner.Name
	case p.Reason == "TemplateRefused":
		p.Next = "correct spec.template of " + b.owner.Name
	case p.Reason == controller.HookFailed:
		blocks = false
		l.Note = fmt.Sprintf("its %d children were not planned", b.left)
		if b.left == 1 {
			l.Note = "its child was not planned"
		}
	case kube.AsStatus(err) != nil:
		p.Quoted = kube.Explain(err)
	}
	b.owner.Failed = !blocks
	l.Problem = b.shown(p)
	b.owner.Lines = append(b.owner.Lines, l)
}
