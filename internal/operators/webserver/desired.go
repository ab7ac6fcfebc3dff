package webserver

import (
	"errors"
	"fmt"
	"slices"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

const (
	// Container is the name under which a template overlay finds the web server's container.
	Container = "webserver"
	// portName names the port of the container and of the Service. A named target port lets pods of the old and the
	// new port serve side by side during a roll; and by the name of the Service's port the API server finds the node
	// port that it has to keep when the port changes.
	portName    = "http"
	defaultPort = 80
)

// The types of the Service.
const (
	clusterIP        = "ClusterIP"
	nodePortType     = "NodePort"
	loadBalancerType = "LoadBalancer"
)

// desired returns what should exist for a WebServer. An error names the field of the spec that is wrong.
func desired(ws *WebServer) ([]operator.Child, error) {
	if err := validate(ws); err != nil {
		return nil, err
	}
	template, err := podTemplate(ws)
	if err != nil {
		return nil, err
	}
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": operator.SelectorLabels(app, ws.Name)},
		"template": template,
	}
	if ws.Spec.Replicas != nil {
		spec["replicas"] = int64(*ws.Spec.Replicas)
	}
	return []operator.Child{
		// An autoscaler's work is not lost when it takes over from spec.replicas, nor is a `kubectl scale`.
		{Resource: deployments, Name: ws.Name, Body: map[string]any{"spec": spec}, Keep: []string{"replicas"}},
		{Resource: services, Name: serviceName(ws.Name), Body: service(ws, ws.Spec.NodePort)},
	}, nil
}

// keepNodePort has a Service that is created again ask for the node port that it had. That is not declared: the
// cluster has allocated the port, and it stays the cluster's.
func keepNodePort(ws *WebServer, children []operator.Child) {
	if ws.Spec.NodePort == nil && ws.Status.NodePort != nil && serviceType(ws) != clusterIP {
		children[1].Create = service(ws, ws.Status.NodePort)
	}
}

func serviceName(name string) string { return name + serviceSuffix }

const serviceSuffix = "-service"

func serviceType(ws *WebServer) string {
	if ws.Spec.ServiceType == "" {
		return nodePortType
	}
	return ws.Spec.ServiceType
}

func port(ws *WebServer) int64 {
	if ws.Spec.Port == nil {
		return defaultPort
	}
	return int64(*ws.Spec.Port)
}

func service(ws *WebServer, nodePort *int32) map[string]any {
	p := map[string]any{"name": portName, "port": port(ws), "targetPort": portName, "protocol": "TCP"}
	if nodePort != nil {
		p["nodePort"] = int64(*nodePort)
	}
	return map[string]any{"spec": map[string]any{"type": serviceType(ws),
		"selector": operator.SelectorLabels(app, ws.Name), "ports": []any{p}}}
}

// podTemplate returns the pods' template with the user's overlay laid over it.
func podTemplate(ws *WebServer) (map[string]any, error) {
	c := map[string]any{
		"name":  Container,
		"image": ws.Spec.Image,
		"ports": []any{map[string]any{"name": portName, "containerPort": port(ws), "protocol": "TCP"}},
	}
	for _, field := range []struct {
		name string
		raw  kube.Raw
	}{{"env", ws.Spec.Env}, {"resources", ws.Spec.Resources}} {
		v, err := operator.Decode("spec."+field.name, field.raw)
		if err != nil {
			return nil, err
		}
		if v != nil {
			c[field.name] = v
		}
	}
	template := map[string]any{
		"metadata": map[string]any{"labels": operator.SelectorLabels(app, ws.Name)},
		"spec":     map[string]any{"containers": []any{c}},
	}
	schema := patch.SchemaFor(deployments.APIVersion(), deployments.Kind).Field("spec").Field("template")
	return operator.Overlay(schema, template, ws.Spec.Template)
}

// validate checks what the schema of the CRD checks already, for clusters with an older one.
func validate(ws *WebServer) error {
	s := &ws.Spec
	switch {
	case s.Image == "":
		return errors.New("spec.image: must not be empty")
	case s.Replicas != nil && *s.Replicas < 0:
		return fmt.Errorf("spec.replicas: must not be negative, is %d", *s.Replicas)
	case s.Port != nil && (*s.Port < 1 || *s.Port > 65535):
		return fmt.Errorf("spec.port: must be within 1..65535, is %d", *s.Port)
	case s.NodePort != nil && (*s.NodePort < 30000 || *s.NodePort > 32767):
		return fmt.Errorf("spec.nodePort: must be within 30000..32767, is %d", *s.NodePort)
	case !slices.Contains([]string{clusterIP, nodePortType, loadBalancerType}, serviceType(ws)):
		return fmt.Errorf("spec.serviceType: must be NodePort, ClusterIP or LoadBalancer, is %q", s.ServiceType)
	case s.NodePort != nil && serviceType(ws) == clusterIP:
		return errors.New("spec.nodePort: a Service of spec.serviceType ClusterIP has none; remove one of the two")
	}
	return operator.CheckName(ws.Name, serviceSuffix, "the Service")
}
