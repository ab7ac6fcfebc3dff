package apiserver

import (
	"fmt"
	"net"
	"strconv"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// webhookKinds are the resources of the webhook configurations: those that mutate, then those that validate.
var webhookKinds = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}

// webhooks makes the plugins of the stored configurations of webhooks, which are called in the order of the names of
// the configurations.
func (s *Server) webhooks(tx *store.Tx) []admission.Plugin {
	s.closeWebhooks()
	var out []admission.Plugin
	for i, plural := range webhookKinds {
		var hooks []*admission.Webhook
		for _, configuration := range tx.List(plural+"."+registration, "") {
			for _, spec := range obj.Maps(configuration.Value(), "webhooks") {
				hook, err := admission.NewWebhook(spec, s.network())
				if err != nil {
					continue // never: its selectors were found valid when it was stored
				}
				if list := obj.Slice(spec, "matchConditions"); len(list) > 0 {
					hook.Conditions, _ = s.opts.CEL.Conditions(list, "")
				}
				hooks = append(hooks, hook)
			}
		}
		if s.hooks = append(s.hooks, hooks...); len(hooks) > 0 {
			out = append(out, []func([]*admission.Webhook) admission.Plugin{admission.Mutating,
				admission.Validating}[i](hooks))
		}
	}
	return out
}

// closeWebhooks ends the connections to the webhooks of configurations that are changed. Calls go on.
func (s *Server) closeWebhooks() {
	for _, hook := range s.hooks {
		hook.Close()
	}
	s.hooks = nil
}

// refuseConditions refuses the matchConditions of webhooks where nothing evaluates CEL.
func (s *Server) refuseConditions() {
	if s.opts.CEL != nil {
		return
	}
	for _, plural := range webhookKinds {
		k := s.registry.find(registration, "v1", plural)
		validate := k.Validate
		k.Validate = func(next, cur map[string]any) []kinds.Cause {
			out := validate(next, cur)
			for i, hook := range obj.Maps(next, "webhooks") {
				if len(obj.Slice(hook, "matchConditions")) > 0 {
					out = append(out, obj.Forbidden(fmt.Sprintf("webhooks[%d].matchConditions", i), "conditions in "+
						"CEL would have no effect: this build of skiff-dev does not evaluate CEL, the released one "+
						"does (make skiff-dev)"))
				}
			}
			return out
		}
	}
}

// network is how the server reaches webhooks.
func (s *Server) network() admission.Network {
	return admission.Network{Resolve: s.resolve, Dial: s.dial}
}

// resolve returns the address of a ready endpoint of a Service's port. There are no cluster IPs to send to here, so
// that a webhook behind a Service needs an EndpointSlice or Endpoints with an address that this process reaches.
func (s *Server) resolve(namespace, name string, port int64) (string, error) {
	service := s.store.Get("services", store.Key{Namespace: namespace, Name: name})
	if service == nil {
		return "", httpd.NotFound(kube.Resource{Plural: "service"}, name)
	}
	for _, p := range obj.Maps(service.Value(), "spec", "ports") {
		if n, _ := obj.Int(p, "port"); n != port {
			continue
		}
		if obj.String(service.Value(), "spec", "type") == "ExternalName" {
			return net.JoinHostPort(obj.String(service.Value(), "spec", "externalName"),
				strconv.FormatInt(port, 10)), nil
		}
		if address := s.endpointOf(namespace, name, obj.String(p, "name")); address != "" {
			return address, nil
		}
		return "", fmt.Errorf("no endpoints available for service %q", name)
	}
	return "", fmt.Errorf("no service port %d found for service %q", port, name)
}

// endpointOf returns the address of a named port of a Service, "" if none is ready.
func (s *Server) endpointOf(namespace, service, portName string) string {
	pick := func(ports []map[string]any, addresses []string) string {
		for _, p := range ports {
			if n, ok := obj.Int(p, "port"); ok && len(addresses) > 0 && obj.String(p, "name") == portName {
				return net.JoinHostPort(addresses[0], strconv.FormatInt(n, 10))
			}
		}
		return ""
	}
	for _, o := range s.store.List("endpointslices.discovery.k8s.io", namespace) {
		slice, addresses := o.Value(), []string(nil)
		if obj.String(slice, "metadata", "labels", "kubernetes.io/service-name") != service {
			continue
		}
		for _, e := range obj.Maps(slice, "endpoints") {
			if ready, set := obj.Get(e, "conditions", "ready").(bool); ready || !set {
				addresses = append(addresses, obj.Texts(e, "addresses")...)
			}
		}
		if address := pick(obj.Maps(slice, "ports"), addresses); address != "" {
			return address
		}
	}
	if o := s.store.Get("endpoints", store.Key{Namespace: namespace, Name: service}); o != nil {
		for _, subset := range obj.Maps(o.Value(), "subsets") {
			var addresses []string
			for _, a := range obj.Maps(subset, "addresses") {
				addresses = append(addresses, obj.String(a, "ip"))
			}
			if address := pick(obj.Maps(subset, "ports"), addresses); address != "" {
				return address
			}
		}
	}
	return ""
}
