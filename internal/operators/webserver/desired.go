package webserver

import (
	"errors"
	"fmt"
	"maps"
	"regexp"

	"skiff/internal/apply"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

const (
	// container is the name under which a template overlay finds the web server's container.
	container = "webserver"
	// portName names the port of the container and of the Service. A named target port lets pods of the old and the new
	// port serve side by side during a roll; and by the name of the Service's port the API server finds the node port
	// that it has to keep when the port changes.
	portName    = "http"
	defaultPort = 80
)

// children is the desired state.
type children struct{ deployment, service apply.Child }

// desired returns what should exist for a WebServer. It is a pure function of the spec and identity of ws, and, for the
// birth of the Service alone, of the node port in its status. An error names the field of the spec that is wrong.
func desired(ws *WebServer) (children, error) {
	if err := validate(ws); err != nil {
		return children{}, err
	}
	template, err := podTemplate(ws)
	if err != nil {
		return children{}, err
	}
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": selectorLabels(ws.Name)},
		"template": template,
	}
	if ws.Spec.Replicas != nil {
		spec["replicas"] = int64(*ws.Spec.Replicas)
	}
	c := children{
		// An autoscaler's work is not lost when it takes over from spec.replicas, nor is a `kubectl scale`.
		deployment: apply.Child{Body: object(ws, deployments, ws.Name, spec), Keep: []string{"replicas"}},
		service:    apply.Child{Body: object(ws, services, serviceName(ws.Name), serviceSpec(ws, ws.Spec.NodePort))},
	}
	if ws.Spec.NodePort == nil && ws.Status.NodePort != nil {
		// Asked for once, not declared: the cluster has allocated the port, and it stays the cluster's.
		c.service.Create = object(ws, services, serviceName(ws.Name), serviceSpec(ws, ws.Status.NodePort))
	}
	return c, nil
}

func serviceName(name string) string { return name + "-service" }

// object returns a child with the recommended labels and its owner.
func object(ws *WebServer, r kube.Resource, name string, spec map[string]any) map[string]any {
	labels := selectorLabels(ws.Name)
	labels[apply.ManagedByLabel] = apply.ManagedBy
	return map[string]any{
		"apiVersion": r.APIVersion(),
		"kind":       r.Kind,
		"metadata": map[string]any{
			"name":            name,
			"namespace":       ws.Namespace,
			"labels":          labels,
			"ownerReferences": []any{apply.OwnerOf(resource, ws).Reference()},
		},
		"spec": spec,
	}
}

// selectorLabels select the pods. They can never change: a Deployment's selector is immutable.
func selectorLabels(name string) map[string]any {
	return map[string]any{"app.kubernetes.io/name": "webserver", "app.kubernetes.io/instance": name}
}

// selector is selectorLabels in the form of `kubectl get -l`, keys in order.
func selector(name string) string {
	return "app.kubernetes.io/instance=" + name + ",app.kubernetes.io/name=webserver"
}

func port(ws *WebServer) int64 {
	if ws.Spec.Port == nil {
		return defaultPort
	}
	return int64(*ws.Spec.Port)
}

func serviceSpec(ws *WebServer, nodePort *int32) map[string]any {
	p := map[string]any{"name": portName, "port": port(ws), "targetPort": portName, "protocol": "TCP"}
	if nodePort != nil {
		p["nodePort"] = int64(*nodePort)
	}
	return map[string]any{"type": "NodePort", "selector": selectorLabels(ws.Name), "ports": []any{p}}
}

// podTemplate returns the pods' template with the user's overlay laid over it.
func podTemplate(ws *WebServer) (map[string]any, error) {
	c := map[string]any{
		"name":  container,
		"image": ws.Spec.Image,
		"ports": []any{map[string]any{"name": portName, "containerPort": port(ws), "protocol": "TCP"}},
	}
	for _, f := range []struct {
		name string
		raw  kube.Raw
	}{{"env", ws.Spec.Env}, {"resources", ws.Spec.Resources}} {
		if len(f.raw) == 0 {
			continue
		}
		v, err := patch.Decode(f.raw)
		if err != nil {
			return nil, fmt.Errorf("spec.%s: %w", f.name, err)
		}
		if v != nil {
			c[f.name] = v
		}
	}
	template := map[string]any{
		"metadata": map[string]any{"labels": selectorLabels(ws.Name)},
		"spec":     map[string]any{"containers": []any{c}},
	}
	if len(ws.Spec.Template) == 0 {
		return template, nil
	}
	v, err := patch.Decode(ws.Spec.Template)
	if err != nil {
		return nil, fmt.Errorf("spec.template: %w", err)
	}
	overlay, ok := v.(map[string]any)
	if v == nil {
		return template, nil
	} else if !ok {
		return nil, errors.New("spec.template: must be an object with metadata and spec, as in a pod")
	}
	// The schema says which lists are merged, and by which key.
	schema := patch.SchemaFor(deployments.APIVersion(), deployments.Kind).Field("spec").Field("template")
	merged, err := patch.StrategicMerge(schema, template, overlay)
	if err != nil {
		return nil, fmt.Errorf("spec.template: %w", err)
	}
	return withSelectorLabels(merged, ws.Name), nil
}

// withSelectorLabels puts the labels back that the overlay may have changed or removed: without them the Deployment does
// not find its pods.
func withSelectorLabels(template map[string]any, name string) map[string]any {
	metadata, _ := template["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	out := map[string]any{}
	maps.Copy(out, labels)
	maps.Copy(out, selectorLabels(name))
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["labels"] = out
	template["metadata"] = metadata
	return template
}

// namePattern is that of a DNS label which begins with a letter, as the name of a Service must be.
var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// maxName leaves room for "-service" within the 63 characters of a DNS label.
const maxName = 63 - len("-service")

// validate checks what the schema of the CRD checks already, for clusters with an older one.
func validate(ws *WebServer) error {
	s := &ws.Spec
	switch {
	case len(ws.Name) > maxName || !namePattern.MatchString(ws.Name):
		return fmt.Errorf("metadata.name: must be a DNS label that begins with a letter, of at most %d characters, because the Service is named NAME-service", maxName)
	case s.Image == "":
		return errors.New("spec.image: must not be empty")
	case s.Replicas != nil && *s.Replicas < 0:
		return fmt.Errorf("spec.replicas: must not be negative, is %d", *s.Replicas)
	case s.Port != nil && (*s.Port < 1 || *s.Port > 65535):
		return fmt.Errorf("spec.port: must be within 1..65535, is %d", *s.Port)
	case s.NodePort != nil && (*s.NodePort < 30000 || *s.NodePort > 32767):
		return fmt.Errorf("spec.nodePort: must be within 30000..32767, is %d", *s.NodePort)
	}
	return nil
}
