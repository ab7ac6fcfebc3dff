package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// model is a controller whose hook is a pure function of its request.
type model struct {
	selects   bool // by spec.selector, instead of the uid of the parent
	decorates bool
	finalizes bool
	rolls     bool // ConfigMaps roll when spec.text changes
}

var models = map[string]model{
	"generated selector": {finalizes: true},
	"selector":           {selects: true, finalizes: true},
	"without finalizer":  {selects: true},
	"decorator":          {decorates: true, finalizes: true},
	"rolling":            {finalizes: true, rolls: true},
}

func (m model) options() operatortest.Options {
	return operatortest.Options{Resource: things, Controller: "model", Books: []kube.Resource{spec.Revisions},
		New: func(s controller.Setup, r *events.Recorder) *controller.Controller { return m.script().new(s, r) }}
}

func (m model) script() *script {
	s := composite(m.hook)
	if m.decorates {
		s = decorator("model", things, m.hook)
	}
	s.controller.GenerateSelector = !m.selects && !m.decorates
	s.controller.Customize = &spec.Hook{Version: 1, Webhook: &spec.Webhook{}}
	if m.rolls {
		s.controller.Children[0].Method = spec.RollingInPlace
		s.controller.Parents[0].FieldPaths = []string{"spec.text"}
	}
	s.kind(deployments, spec.Recreate)
	if m.finalizes {
		s.finalizing()
	}
	return s
}

// hook makes a ConfigMap and a Deployment for each of spec.names, with spec.text and the names of related Secrets.
func (m model) hook(hook wire.Hook, request map[string]any) (string, error) {
	parent, observed, list := request["parent"], request["children"], "children"
	if m.decorates && hook != wire.Customize {
		parent, observed, list = request["object"], request["attachments"], "attachments"
	}
	if at(parent, "spec", "selector") == nil {
		return "", fmt.Errorf("the %s hook gets a parent without its spec: %v", hook, parent)
	}
	switch at(parent, "spec", "mood") {
	case "fails":
		return "", errors.New("the hook fails")
	case "hangs":
		return "", errHangs
	case "later":
		return "", &call.Later{After: time.Minute}
	case "wrong":
		return `{"` + list + `":[null],"relatedResources":[null]}`, nil
	}
	if hook == wire.Customize {
		return `{"relatedResources":[{"apiVersion":"v1","resource":"secrets","labelSelector":{"matchLabels":` +
			`{"app":"related"}}}]}`, nil
	}
	configs, _ := at(observed, "ConfigMap.v1").(map[string]any)
	running, _ := at(observed, "Deployment.apps/v1").(map[string]any)
	if hook == wire.Finalize {
		return fmt.Sprintf(`{"finalized":%t,"status":{"left":%d}}`, len(configs)+len(running) == 0, len(configs)), nil
	}
	related, _ := at(request, "related", "Secret.v1").(map[string]any)
	want := wanted(parent, slices.Sorted(maps.Keys(related)))
	status := map[string]any{"text": at(parent, "spec", "text"), "configs": len(configs), "running": len(running)}
	answer := map[string]any{"status": status, list: want}
	if m.decorates {
		answer["labels"] = map[string]any{"decorated": at(parent, "spec", "text"), "never": nil}
	}
	text, err := json.Marshal(answer)
	return string(text), err
}

// wanted are the children of a parent.
func wanted(parent any, related []string) (all []any) {
	name, _ := at(parent, "metadata", "name").(string)
	list, _ := at(parent, "spec", "names").([]any)
	text, _ := at(parent, "spec", "text").(string)
	labels := map[string]any{"of": name}
	for _, n := range list {
		meta := func() map[string]any {
			return map[string]any{"name": fmt.Sprintf("%s-%v", name, n), "labels": labels}
		}
		all = append(all, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(),
			"data": map[string]any{"text": text, "related": strings.Join(related, ",")}},
			map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(), "spec": map[string]any{
				"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
					"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{
						map[string]any{"name": "c", "image": "image:" + text}}}}}})
	}
	return all
}
