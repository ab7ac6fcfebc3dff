package reconcile

import (
	"context"
	"errors"
	"sync"
	"testing"

	"skiff/internal/hooks/wire"
	"skiff/internal/testcluster/operatortest"
)

// Whatever a hook answers or fails with, a reader without a token is shown nothing of that, of a parent or of a child.
//
// Rules: LP-08
func TestReadersWithoutATokenAreShownNoContentOfHooks(t *testing.T) {
	const child = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","labels":{"l":"canary"}},` +
		`"data":{"a":"canary"}}`
	const status = `"status":{"state":"canary","conditions":[{"type":"Ready","status":"False","reason":"Waits",` +
		`"message":"canary"},{"type":"Degraded","status":"True","reason":"Broken","message":"canary"}]}`
	var mu sync.Mutex // guards answer and failure
	var answer string
	var failure error
	s := composite(func(wire.Hook, map[string]any) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return answer, failure
	})
	s.hasConditions = func(context.Context) bool { return true }
	answers := func(text string, err error) func(*env) {
		return func(*env) {
			mu.Lock()
			defer mu.Unlock()
			answer, failure = text, err
		}
	}
	whole := `{` + status + `,"children":[` + child + `]}`
	hurts := []operatortest.Hurt{
		{Name: "a good answer", Do: answers(whole, nil)},
		{Name: "an error", Do: answers("", errors.New("canary"))},
		{Name: "no JSON", Do: answers("canary {", nil)},
		{Name: "a child without a name", Do: answers(`{"children":[{"apiVersion":"v1","kind":"ConfigMap",`+
			`"data":{"a":"canary"}}]}`, nil)},
		{Name: "an unknown field", Do: answers(`{"children":[{"apiVersion":"v1","kind":"ConfigMap",`+
			`"metadata":{"name":"web"},"dota":{"a":"canary"}}]}`, nil)},
		{Name: "a wrong type", Do: answers(`{"children":[{"apiVersion":"v1","kind":"ConfigMap",`+
			`"metadata":{"name":"web"},"data":"canary"}]}`, nil)},
		{Name: "a status that is no object", Do: answers(`{"status":"canary","children":[]}`, nil)},
		{Name: "somebody else's child", Do: func(w *env) {
			answers(whole, nil)(w)
			w.Post(configMaps, child)
		}},
	}
	for _, hurt := range operatortest.Refusals([]string{"create", "patch", "update"}, configMaps, things) {
		inject := hurt.Do
		hurt.Do = func(w *env) {
			answers(whole, nil)(w)
			inject(w)
		}
		hurts = append(hurts, hurt)
	}
	o := operatortest.Options{Resource: s.parent, Controller: s.controller.Name, New: s.new}
	operatortest.HidesCanaries(t, o, define, map[string]string{"web": `{"text":"canary"}`}, hurts)
}
