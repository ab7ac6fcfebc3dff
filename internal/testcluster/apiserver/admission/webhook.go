package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/jsonpatch"
	"skiff/internal/testcluster/apiserver/obj"
)

// Webhook is one webhook of a configuration that was found valid.
type Webhook struct {
	*Matcher
	// Conditions reports whether the matchConditions hold for a write, nil if there are none.
	Conditions func(*Attributes) (bool, error)

	name    string
	ignore  bool // its failures
	again   bool // it is called again if a later one changes the object
	timeout time.Duration
	client  *client
}

// NewWebhook reads a webhook of a configuration.
func NewWebhook(spec map[string]any, n Network) (*Webhook, error) {
	m, err := NewMatcher(spec, "rules", "")
	seconds, _ := obj.Int(spec, "timeoutSeconds")
	w := &Webhook{Matcher: m, name: obj.String(spec, "name"), ignore: obj.String(spec, "failurePolicy") == "Ignore",
		again: obj.String(spec, "reinvocationPolicy") == "IfNeeded", timeout: time.Duration(seconds) * time.Second,
		client: newClient(spec, "clientConfig", "admissionReviewVersions", reviews, n)}
	return w, err
}

// Close ends the idle connections to the webhook.
func (w *Webhook) Close() { w.client.Close() }

// callError is a failure to call a webhook, which its failurePolicy may ignore.
type callError struct {
	name string
	err  error
}

func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.name, e.err)
}

// failed returns the answer to a request for which a call failed, nil if it did not or the failure is ignored.
func (w *Webhook) failed(ctx context.Context, err error) error {
	var call *callError
	switch {
	case !errors.As(err, &call):
		return err
	case w.ignore && ctx.Err() != nil:
		return httpd.TimedOut()
	case w.ignore:
		return nil
	}
	return httpd.InternalError("%v", err)
}

// called returns the attributes of a write as this webhook gets them, nil if it is not called.
func (w *Webhook) called(ctx context.Context, a *Attributes) (*Attributes, error) {
	as, ok, err := w.Match(a)
	if !ok || err != nil {
		return nil, err
	}
	seen := *a
	if as != a.Resource {
		seen.Resource = as
		if seen.Kind == a.Resource { // that of a subresource such as scale is the same in all versions
			seen.Kind = as
			for _, o := range []*map[string]any{&seen.Object, &seen.OldObject} {
				if *o == nil {
					continue
				}
				if *o, err = a.Convert(ctx, *o, as); err != nil {
					return nil, httpd.InternalError("%v", err)
				}
			}
		}
	}
	if w.Conditions != nil {
		if ok, err = w.Conditions(&seen); err != nil {
			return nil, httpd.Forbidden(a.Resource.Group, a.Resource.Plural, a.Name, err.Error())
		}
	}
	if !ok {
		return nil, nil
	}
	return &seen, nil
}

// Mutating returns the plugin that calls mutating webhooks in their order.
func Mutating(hooks []*Webhook) Plugin {
	return Plugin{Concerns: concern(hooks), Mutate: func(ctx context.Context, a *Attributes) error {
		changed := make([]bool, len(hooks)) // by one that came after this one
		if err := mutateAll(ctx, hooks, a, changed, nil); err != nil {
			return err
		}
		return mutateAll(ctx, hooks, a, make([]bool, len(hooks)), changed)
	}}
}

// mutateAll calls the webhooks, or in a second round only those that asked for one (again). It notes in changed
// which ones were called before another one changed the object.
func mutateAll(ctx context.Context, hooks []*Webhook, a *Attributes, changed, again []bool) error {
	var before []int
	for i, h := range hooks {
		if again != nil && !(again[i] && h.again) {
			continue
		}
		seen, err := h.called(ctx, a)
		if err != nil {
			return err
		}
		if seen == nil {
			continue
		}
		next, err := h.mutate(ctx, a, seen)
		if err := h.failed(ctx, err); err != nil {
			return err
		}
		if next != nil && !patch.Equal(next, a.Object) {
			a.Object = next
			for _, b := range before {
				changed[b] = true
			}
		}
		before = append(before, i)
	}
	return nil
}

// mutate calls a mutating webhook and returns the object with its patch, nil if there is none.
func (w *Webhook) mutate(ctx context.Context, a, seen *Attributes) (map[string]any, error) {
	r, err := w.call(ctx, a, seen, true)
	if err != nil || len(r.patch) == 0 {
		return nil, err
	}
	var list jsonpatch.Patch
	ops, _, err := obj.Decode(r.patch)
	if decodeErr := json.Unmarshal(r.patch, &list); decodeErr != nil {
		err = decodeErr
	}
	if err != nil {
		return nil, &callError{w.name, fmt.Errorf("received undecodable patch in webhook response: %w", err)}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if seen.Object == nil {
		return nil, httpd.InternalError("admission webhook %q attempted to modify the object, which is not "+
			"supported for this operation", w.name)
	}
	if r.patchType != "JSONPatch" {
		return nil, &callError{w.name, fmt.Errorf("unsupported patch type %q", r.patchType)}
	}
	v, err := jsonpatch.Apply(seen.Object, ops)
	next, ok := v.(map[string]any)
	if err == nil && !ok {
		err = errors.New("the patch leaves no object")
	}
	if err == nil && seen.Resource != a.Resource && seen.Kind == seen.Resource {
		next, err = a.Convert(ctx, next, a.Resource)
	}
	if err == nil {
		next, err = a.Complete(next)
	}
	if st := kube.AsStatus(err); err != nil && st == nil {
		err = httpd.InternalError("%v", err)
	}
	return next, err
}

// Validating returns the plugin that calls validating webhooks, all at the same time.
func Validating(hooks []*Webhook) Plugin {
	return Plugin{Concerns: concern(hooks), Validate: func(ctx context.Context, a *Attributes) error {
		seen := make([]*Attributes, len(hooks))
		for i, h := range hooks {
			var err error
			if seen[i], err = h.called(ctx, a); err != nil {
				return err
			}
		}
		errs := make([]error, len(hooks))
		var wg sync.WaitGroup
		for i, h := range hooks {
			if seen[i] == nil {
				continue
			}
			wg.Go(func() {
				_, err := h.call(ctx, a, seen[i], false)
				errs[i] = h.failed(ctx, err)
			})
		}
		wg.Wait()
		return cmp.Or(errs...)
	}}
}

func concern(hooks []*Webhook) func(*Attributes) bool {
	return func(a *Attributes) bool {
		return slices.ContainsFunc(hooks, func(h *Webhook) bool { return h.Concerns(a) })
	}
}
