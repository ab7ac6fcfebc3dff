package plan

import (
	"context"
	"fmt"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Proposal is the proposed version of an owner.
type Proposal struct {
	Resource kube.Resource
	Key      kube.Key
	Object   kube.Raw
	// Refused says which fields of Object the server has refused, each with a place in a file; none: err is about
	// something else. nil: the places are not known.
	Refused func(ctx context.Context, c *kube.Client, err error) []string
}

// userManager is the field manager of `kubectl apply --server-side`, who most likely applies a file.
const userManager = "kubectl"

// appliedAnnotation holds the object last applied by `kubectl apply`.
const appliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// propose asks the server for the objects made of proposals, and has the answers stand for the stored objects. They
// are returned by resource. A refused proposal becomes a line.
func (p *Planner) propose(ctx context.Context, all []Proposal, out *Plan) map[string][]kube.Raw {
	proposed := map[string][]kube.Raw{}
	for _, one := range all {
		answer, fresh, err := p.tryProposal(ctx, one)
		if err != nil {
			out.Objects++
			o := ownerOf(one.Resource, one.Key)
			o.New, o.Failed = fresh, kube.AsStatus(err) == nil
			o.Lines = p.refusedLines(ctx, one, err)
			out.add(o)
			continue
		}
		p.mu.Lock()
		p.standIns[idOf(one.Resource, one.Key)] = answer
		p.fresh[idOf(one.Resource, one.Key)] = fresh
		p.mu.Unlock()
		proposed[one.Resource.GroupResource()] = append(proposed[one.Resource.GroupResource()], answer)
	}
	return proposed
}

// refusedLines say why a proposal is refused: the place and the fault, or the server's message.
func (p *Planner) refusedLines(ctx context.Context, one Proposal, err error) (lines []Line) {
	if one.Refused != nil {
		for _, text := range one.Refused(ctx, p.o.Client, err) {
			lines = append(lines, Line{Op: Blocked, Problem: &health.Problem{Reason: "Invalid", Public: text}})
		}
	}
	if len(lines) > 0 {
		return lines
	}
	return []Line{{Op: Blocked, Problem: &health.Problem{Reason: controller.ReasonOf(err), Quoted: kube.Explain(err),
		Next: "correct the file of -f"}}}
}

// tryProposal returns the server's object for a proposal, and whether the object would be new.
func (p *Planner) tryProposal(ctx context.Context, one Proposal) (answer kube.Raw, fresh bool, err error) {
	var live kube.Raw
	if err := p.o.Client.Get(ctx, one.Resource, one.Key, &live); err != nil && !kube.IsNotFound(err) {
		return nil, false, err
	}
	fresh = live == nil
	kind, body, err := kube.ApplyPatch, one.Object, error(nil)
	// kubectl apply always writes JSON: anything else is another program's.
	if last, _ := decoded(kube.Raw(annotation(live, appliedAnnotation))); last != nil {
		kind = kube.MergePatch // as `kubectl apply` does with custom resources
		if body, err = withoutDropped(last, one.Object); err != nil {
			return nil, fresh, err
		}
	}
	o := kube.WriteOptions{DryRun: true, FieldManager: userManager, Force: kind == kube.ApplyPatch}
	err = p.o.Client.Patch(ctx, one.Resource, one.Key, kind, body, &answer, o)
	if err == nil {
		return answer, fresh, nil
	}
	if !hasNoDryRun(err) {
		return nil, fresh, err
	}
	w := kube.Write{Verb: "apply", Resource: one.Resource, Key: one.Key, Type: kind, Body: body, Before: live}
	answer, ok := answerOf(&w)
	if !ok {
		return nil, fresh, err
	}
	return answer, fresh, nil
}

// withoutDropped returns a merge patch: an object, with null for fields applied before and dropped since.
func withoutDropped(last map[string]any, object kube.Raw) (kube.Raw, error) {
	now, err := decoded(object)
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	text, err := patch.Encode(nulled(last, now))
	return text, err
}

func nulled(last, now map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range now {
		was, wasObject := last[name].(map[string]any)
		if is, isObject := v.(map[string]any); isObject && wasObject {
			v = nulled(was, is)
		}
		out[name] = v
	}
	for name := range last {
		if _, ok := now[name]; !ok {
			out[name] = nil
		}
	}
	return out
}
