package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Child is an object that should exist in the namespace of a custom resource.
type Child struct {
	Resource kube.Resource // of one of the Definition's Children
	Name     string
	// Body is a struct with json tags or a map: spec, data or any other field of the kind but status, and more labels
	// and annotations in metadata. The rest of the metadata is added. Declare only fields that you mean to own.
	Body any
	// Create, if not nil, is sent by a POST in Body's place: Body and values that matter only at the creation of the
	// object, where the server would choose otherwise.
	Create any
	// Keep names fields of spec that keep their value when Body does not declare them any longer.
	Keep []string
	// MinReady is how long a replaced child has to have been ready before the next child is replaced.
	MinReady time.Duration
}

// declare returns children for the engine.
func declare(owner apply.Owner, app string, children []Child) ([]apply.Child, error) {
	out := make([]apply.Child, len(children))
	for i := range children {
		c := &children[i]
		body, err := c.object(owner, app, c.Body)
		if err != nil {
			return nil, err
		}
		out[i] = apply.Child{Body: body, Keep: c.Keep, MinReady: c.MinReady}
		if c.Create == nil {
			continue
		}
		if out[i].Create, err = c.object(owner, app, c.Create); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// object returns a body with the name, the labels and the owner of the child.
func (c *Child) object(owner apply.Owner, app string, body any) (map[string]any, error) {
	v, err := plain(body)
	if err != nil {
		return nil, fmt.Errorf("declare %s %s: %w", c.Resource.Kind, c.Name, err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("declare %s %s: it is no object in JSON", c.Resource.Kind, c.Name)
	}
	meta, _ := object["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	object, meta = maps.Clone(object), copied(meta, 4)
	labels = copied(labels, 3)
	maps.Copy(labels, SelectorLabels(app, owner.Name))
	labels[apply.ManagedByLabel] = apply.ManagedBy
	meta["name"], meta["namespace"], meta["labels"] = c.Name, owner.Namespace, labels
	meta["ownerReferences"] = []any{owner.Reference()}
	object["apiVersion"], object["kind"], object["metadata"] = c.Resource.APIVersion(), c.Resource.Kind, meta
	return object, nil
}

// copied returns a shallow copy of m with room for more.
func copied(m map[string]any, more int) map[string]any {
	out := make(map[string]any, len(m)+more)
	maps.Copy(out, m)
	return out
}

// plain returns a value in the types of package patch: unchanged if possible, else by the json tags.
func plain(v any) (any, error) {
	if isPlain(v) {
		return v, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return patch.Decode(text)
}

func isPlain(v any) bool {
	switch v := v.(type) {
	case nil, bool, string, int64, float64:
		return true
	case map[string]any:
		for _, field := range v {
			if !isPlain(field) {
				return false
			}
		}
		return true
	case []any:
		for _, item := range v {
			if !isPlain(item) {
				return false
			}
		}
		return true
	}
	return false
}

// Labels of children, the recommended ones.
const (
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
)

// SelectorLabels select the pods of one custom resource of an application. They can never change: selectors are
// immutable.
func SelectorLabels(app, name string) map[string]any {
	return map[string]any{nameLabel: app, instanceLabel: name}
}

// SelectorKeys are the keys of SelectorLabels.
var SelectorKeys = []string{nameLabel, instanceLabel}

// LookAtPods is the next step where pods are not as they should be.
func LookAtPods(namespace, selector string) string {
	return fmt.Sprintf("look at the pods with `kubectl describe pods -n %s -l %s`", namespace, selector)
}

// Selector is SelectorLabels in the form of `kubectl get -l`, keys in order.
func Selector(app, name string) string {
	return instanceLabel + "=" + name + "," + nameLabel + "=" + app
}

// namePattern matches a DNS label with a letter first, as the name of a Service must be.
var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// CheckName checks the name of a custom resource whose longest child is named NAME and suffix.
func CheckName(name, suffix, child string) error {
	longest := 63 - len(suffix)
	if len(name) <= longest && namePattern.MatchString(name) {
		return nil
	}
	return fmt.Errorf("metadata.name: must be a DNS label that begins with a letter, of at most %d characters, "+
		"because %s is named NAME%s",
		longest, child, strings.TrimSpace(suffix))
}
