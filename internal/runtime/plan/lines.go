package plan

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// builder makes the lines of one owner.
type builder struct {
	*Planner
	owner    *Owner
	resource kube.Resource // of the owner
	writes   []kube.Write
	secrets  secrets
	covered  bool // the errors of children are lines
	left     int  // children that a hook that failed has said nothing of
}

// child is one object that something may be done about.
type child struct {
	resource kube.Resource
	key      kube.Key
	body     map[string]any // as it is declared; nil: it is not
	result   *apply.Result  // nil: it is no child
	writes   []kube.Write
}

// lines adds the lines about the children in the order in which they are declared, then about those that are not
// declared, then about other objects.
func (b *builder) lines(ctx context.Context, all []told) {
	var replaced []Line
	for _, c := range b.children(all) {
		l := b.line(ctx, c)
		switch {
		case l == nil:
		case c.result != nil && c.result.Outcome == apply.Later:
			b.owner.Lines = append(b.owner.Lines, *l)
		case l.Op == Replace && c.result.Declared != "", l.Op == Delete && c.result != nil && c.result.Revision != "":
			replaced = append(replaced, *l)
		default:
			b.owner.Lines = append(b.owner.Lines, *l)
		}
	}
	slices.Reverse(replaced) // a roll goes from the last to the first, and so do removals
	b.owner.Lines = append(b.owner.Lines, replaced...)
}

// children returns all objects that were written, or that package apply has said something of.
func (b *builder) children(all []told) (out []*child) {
	find := func(r kube.Resource, k kube.Key) *child {
		at := slices.IndexFunc(out, func(c *child) bool { return idOf(c.resource, c.key) == idOf(r, k) })
		if at < 0 {
			at, out = len(out), append(out, &child{resource: r, key: k})
		}
		return out[at]
	}
	var later []child
	book := func(r kube.Resource) bool { return slices.Contains(b.o.Books, r) }
	for _, t := range all {
		t.report.Pruned = slices.DeleteFunc(slices.Clone(t.report.Pruned),
			func(r apply.Result) bool { return book(r.Resource) })
		b.owner.deleting = b.owner.deleting || t.want == nil && len(t.report.Pruned) > 0
		if t.want == nil && t.report.Err != nil {
			b.left = len(t.report.Pruned)
			continue
		}
		for i := range t.report.Children {
			r := &t.report.Children[i]
			if r.Outcome == apply.Later {
				later = append(later, child{resource: r.Resource, key: r.Key, body: t.want[i].Body, result: r})
				continue
			}
			c := find(r.Resource, r.Key)
			c.result, c.body = r, t.want[i].Body
		}
		for i := range t.report.Pruned {
			r := &t.report.Pruned[i]
			find(r.Resource, r.Key).result = r
		}
	}
	known := len(out)
	for _, w := range b.writes {
		c := find(w.Resource, w.Key)
		c.writes = append(c.writes, w)
	}
	slices.SortStableFunc(out[known:], func(x, y *child) int { // they were written side by side
		return strings.Compare(x.resource.Kind+" "+x.key.String(), y.resource.Kind+" "+y.key.String())
	})
	for _, l := range later { // whatever is done about them before
		c := find(l.resource, l.key)
		c.result, c.body = l.result, l.body
	}
	return slices.DeleteFunc(out, func(c *child) bool { return book(c.resource) })
}

// line returns the line about one object, nil if there is none.
func (b *builder) line(ctx context.Context, c *child) *Line {
	l := &Line{Resource: c.resource, Key: c.key}
	r := c.result
	if r == nil {
		return b.written(l, c)
	}
	if r.Err != nil {
		b.covered = true
		if s := kube.AsStatus(r.Err); s == nil || s.Code >= 500 || kube.IsUnauthorized(s) { // it is not refused
			b.owner.Failed = true
		}
		l.Op, l.Error = Blocked, b.said(c, kube.Explain(r.Err))
		l.Next = b.nextOf(r.Err)
		return l
	}
	switch r.Outcome {
	case apply.Foreign, apply.Contested, apply.Waiting, apply.Conflict, apply.PortTaken, apply.NoNodePort:
		l.Op, l.Error, l.Next = Blocked, b.said(c, r.Message), b.nextStep(c)
		return l
	case apply.Paused, apply.Outdated:
		l.Op = Held
		l.Note = "its " + b.resource.Kind + " is paused"
		if r.Outcome == apply.Outdated {
			l.Note = "it changes when it is deleted (OnDelete)"
		} else if r.Live == nil {
			l.Note = "it does not exist, and its " + b.resource.Kind + " is paused"
		}
		b.local(ctx, l, c)
		return l
	case apply.Later:
		l.Op, l.Note = Change, r.Message
		if r.Declared != "" {
			l.Op = Replace
			if c.resource.Kind == "Pod" {
				l.Pods = 1
			}
		}
		b.local(ctx, l, c)
		return l
	case apply.Released:
		l.Op, l.Note = Change, "is released: "+r.Message
		return l
	case apply.Replaced:
		l.Op, l.Note = Replace, r.Message
		b.local(ctx, l, c)
		return l
	}
	switch {
	case c.body == nil && r.Live != nil && (!r.Deleting || r.Outcome == apply.Deleted):
		l.Op, l.Note = Delete, "it is no longer declared"
		if b.owner.deleting {
			l.Note = "its " + b.resource.Kind + " is being deleted"
		}
		b.mark(l, c)
		return l
	case c.body != nil && r.Declared != "" && r.Live != nil && r.Revision != r.Declared &&
		(!r.Deleting || r.Outcome == apply.Rolled):
		l.Op, l.Pods, l.Note = Replace, 1, "its template has changed"
		b.local(ctx, l, c)
		b.mark(l, c)
		return l
	}
	return b.written(l, c)
}

// written is the line about what was written.
func (b *builder) written(l *Line, c *child) *Line {
	var before, after kube.Raw
	var declared map[string]any
	var manager string
	for _, w := range c.writes {
		switch {
		case w.Err != nil && !w.Local, w.Subresource != "":
			continue
		case w.Verb == "delete":
			l.Op = Delete
		case w.Verb == "create":
			l.Op = Create
			declared, _ = decoded(w.Body)
		case l.Op == "":
			l.Op, before = Change, w.Before
		}
		if w.Verb == "apply" && !strings.HasSuffix(w.Manager, handover) {
			declared, _ = decoded(w.Body)
		}
		if after = w.After; manager == "" {
			manager = w.Manager
		}
	}
	if l.Op == "" {
		return nil
	}
	b.mark(l, c)
	f := fields{builder: b, line: l, child: c, declared: declared, manager: manager,
		schema: patch.SchemaFor(c.resource.APIVersion(), c.resource.Kind)}
	switch l.Op {
	case Create:
		f.created(after)
	case Change:
		f.changed(before, after)
		if len(l.Fields) == 0 && (b.isOwner(c) || hashOf(before) == hashOf(after)) {
			return nil // its status or its finalizers; or the server stores what it has, whatever we send
		}
	}
	return l
}

// handover is how the field manager ends that package apply hands fields over to.
const handover = "-handover"

func (b *builder) isOwner(c *child) bool {
	return idOf(c.resource, c.key) == idOf(b.resource, b.owner.key)
}

// mark notes on a line why it is not what the server said.
func (b *builder) mark(l *Line, c *child) {
	for _, w := range c.writes {
		if w.Local && w.Subresource == "" && !kube.IsStandIn(w.Err) {
			l.Local = b.secrets.cut(kube.Explain(w.Err))
		}
	}
}

// local adds the fields in which a child is not as it is declared, without asking for a dry run.
func (b *builder) local(ctx context.Context, l *Line, c *child) {
	if c.body == nil || c.result.Live == nil {
		return
	}
	var live kube.Raw
	if err := b.o.Client.Get(ctx, c.resource, c.key, &live); err != nil {
		l.Local = b.secrets.cut(kube.Explain(err))
		return
	}
	b.secrets.add(c.resource, live)
	have, err := decoded(live)
	if err != nil {
		l.Local = kube.Text(err.Error())
		return
	}
	schema := patch.SchemaFor(c.resource.APIVersion(), c.resource.Kind)
	want, _ := overlay(schema, have, c.body).(map[string]any)
	f := fields{builder: b, line: l, child: c, declared: c.body, schema: schema}
	f.differ(have, want, managersOf(live))
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
	case calledHook.MatchString(text):
		text, blocks = calledHook.ReplaceAllString(text, "hook $1$2: "), false
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

// calledHook is how the error of a hook that is a program begins: its name and where it is are said once.
var calledHook = regexp.MustCompile(
	`^call the (\w+) hook: hook \w+ (?:\([^)]*\)|at \S+): |^answer of the (sync|finalize|customize) hook: `)

// said returns what is in the way of a child, without its name, which the line begins with.
func (b *builder) said(c *child, text string) string {
	return b.secrets.cut(strings.TrimPrefix(text, c.resource.Kind+" "+c.key.String()+" "))
}

// nextStep says what to do about a child that is in the way.
func (b *builder) nextStep(c *child) string {
	r := c.result
	switch r.Outcome {
	case apply.Foreign:
		if strings.HasSuffix(r.Message, "is not managed by skiff") {
			return fmt.Sprintf("delete it, or set %s: \"true\" on %s", apply.AdoptAnnotation, b.owner.Name)
		}
		return "delete it, or give " + b.owner.Name + " another name"
	case apply.Contested:
		return "stop what changes it"
	case apply.Waiting:
		return "plan again when it is gone"
	case apply.PortTaken:
		return "free the node port, or declare another one"
	case apply.NoNodePort:
		return "delete a Service that has a node port"
	}
	if strings.Contains(r.Message, "node port") {
		return "free the node port, or declare another one"
	}
	return "plan again: it changed meanwhile"
}

// nextOf says what to do about a refusal.
func (b *builder) nextOf(err error) string {
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
