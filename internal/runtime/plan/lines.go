package plan

import (
	"context"
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// builder makes the lines of an owner.
type builder struct {
	*Planner
	owner    *Owner
	resource kube.Resource // of the owner
	writes   []kube.Write
	secrets  secrets
	covered  bool // the errors of children are lines
	left     int  // children not reported by a failed hook
}

// child is an object with a possible write.
type child struct {
	resource kube.Resource
	key      kube.Key
	body     map[string]any // as declared; nil: not declared
	result   *apply.Result  // nil: not a child
	writes   []kube.Write
}

// lines adds the lines about the declared children in their order, then about the undeclared children, then about
// other objects.
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

// children returns all objects written or reported by package apply.
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
		if t.report.Held != "" {
			b.owner.Lines = append(b.owner.Lines, Line{Op: Held, Note: t.report.Held})
		}
		for _, note := range t.report.LeftOut {
			b.owner.Lines = append(b.owner.Lines, Line{Op: Blocked, Problem: &health.Problem{Reason: "FieldsLeftOut",
				Public: note, Next: "correct the hook, or the definition"}})
		}
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
	slices.SortStableFunc(out[known:], func(x, y *child) int { // writes run side by side
		return strings.Compare(x.resource.Kind+" "+x.key.String(), y.resource.Kind+" "+y.key.String())
	})
	for _, l := range later { // after all other lines
		c := find(l.resource, l.key)
		c.result, c.body = l.result, l.body
	}
	return slices.DeleteFunc(out, func(c *child) bool { return book(c.resource) })
}

// line returns the line about an object, nil for none.
func (b *builder) line(ctx context.Context, c *child) *Line {
	l := &Line{Resource: c.resource, Key: c.key}
	r := c.result
	switch {
	case r == nil:
		return b.written(l, c)
	case r.Err != nil, inTheWay(r.Outcome):
		return b.blocked(l, c)
	}
	switch r.Outcome {
	case apply.Paused:
		if l.Op, l.Note = Held, "its "+b.resource.Kind+" is paused"; r.Live == nil {
			l.Note = "it does not exist, and " + l.Note
		}
	case apply.Outdated:
		l.Op, l.Note = Held, "it changes when it is deleted (OnDelete)"
	case apply.Released:
		l.Op, l.Note = Change, "is released: "+r.Why().Note()
		return l
	case apply.Replaced:
		l.Op, l.Note = Replace, r.Why().Note()
	case apply.Later:
		if l.Op, l.Note = Change, r.Why().Note(); r.Declared != "" {
			l.Op = Replace
		}
	default:
		gone := r.Deleting && r.Outcome != apply.Deleted && r.Outcome != apply.Rolled // before this run
		switch {
		case c.body == nil && r.Live != nil && !gone:
			l.Op, l.Note = Delete, "it is no longer declared"
			if b.owner.deleting {
				l.Note = "its " + b.resource.Kind + " is being deleted"
			}
		case c.body != nil && r.Declared != "" && r.Live != nil && r.Revision != r.Declared && !gone:
			l.Op, l.Note = Replace, "its template has changed"
		default:
			return b.written(l, c)
		}
		b.mark(l, c)
	}
	b.local(ctx, l, c)
	if l.Op == Replace && r.Declared != "" && c.resource.Kind == "Pod" {
		l.Pods = 1
	}
	return l
}

// written is the line about the writes of an object.
func (b *builder) written(l *Line, c *child) *Line {
	var before, after kube.Raw
	f := fields{builder: b, line: l, child: c}
	for _, w := range c.writes {
		switch {
		case w.Err != nil && !w.Local, w.Subresource != "":
			continue
		case w.Verb == "delete":
			l.Op = Delete
		case w.Verb == "create":
			l.Op = Create
		case l.Op == "":
			l.Op, before = Change, w.Before
		}
		if w.Verb == "create" || w.Verb == "apply" && !strings.HasSuffix(w.Manager, apply.Handover) {
			f.declared, _ = decoded(w.Body)
		}
		after = w.After
	}
	if l.Op == "" {
		return nil
	}
	b.mark(l, c)
	switch l.Op {
	case Create:
		f.created(after)
	case Change:
		f.changed(before, after)
		noted := annotation(before, apply.HashAnnotation) != annotation(after, apply.HashAnnotation)
		if len(l.Fields) == 0 && (b.isOwner(c) || !noted) {
			return nil // only status or finalizers; or the server keeps its object, whatever we send
		}
	}
	return l
}

func (b *builder) isOwner(c *child) bool {
	return idOf(c.resource, c.key) == idOf(b.resource, b.owner.key)
}

// mark notes on a line why the line is not the server's answer.
func (b *builder) mark(l *Line, c *child) {
	for _, w := range c.writes {
		if w.Local && w.Subresource == "" && !kube.IsStandIn(w.Err) {
			l.Local = b.secrets.cut(kube.Explain(w.Err))
		}
	}
}

// local adds the fields in which a child is not as declared, without a dry run.
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
	f := fields{builder: b, line: l, child: c, declared: c.body}
	want, _ := overlay(f.schema(), have, c.body).(map[string]any)
	f.differ(have, want, managersOf(live))
}

// annotation returns an annotation of an object, "" if missing.
func annotation(object kube.Raw, name string) string {
	var o struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if len(object) == 0 || kube.Unmarshal(object, &o) != nil {
		return ""
	}
	return o.Metadata.Annotations[name]
}
