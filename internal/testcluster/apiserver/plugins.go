package apiserver

import (
	"fmt"
	"net"
	"strconv"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// CEL evaluates expressions in CEL for this server, which cannot: what does it takes more space than all of skiff. See
// internal/testcluster/cel.
type CEL struct {
	// Definition validates a custom resource definition, with its rules, in place of this server's own checks. cur is
	// nil for a new one.
	Definition func(next, cur map[string]any) []kinds.Cause
	// Rules compiles the rules in the schema of a version; nil if there are none. The result validates an object that
	// has no other errors; cur is nil for a new one.
	Rules func(schema map[string]any) func(next, cur map[string]any) []kinds.Cause
	// Registration returns what completes and what validates an object of admissionregistration.k8s.io, in place of
	// this server's own checks. cur is nil for a new one.
	Registration func(kind string) (complete func(o map[string]any),
		validate func(next, cur map[string]any) []kinds.Cause)
	// Conditions compiles the matchConditions of a webhook, which are at path in its configuration. The result reports
	// whether all of them hold for a write; its error is why that cannot be said.
	Conditions func(conditions []any, path string) (func(*admission.Attributes) (bool, error), []kinds.Cause)
	// Policies returns the plugins that evaluate the stored admission policies. stored returns all objects of a kind.
	Policies func(stored func(plural string) []map[string]any, params Params) []admission.Plugin
	// TypeCheck returns what expressions in the spec of a ValidatingAdmissionPolicy do with fields that their objects
	// do not have, as expressionWarnings of its status. served are all kinds.
	TypeCheck func(spec []byte, served []*kinds.Kind) []any
}

// Params find the objects that policies have as parameters, while a write is admitted.
type Params struct {
	Kind func(group, version, kind string) *kinds.Kind // nil if it is not served
	List func(k *kinds.Kind, namespace string) []map[string]any
}

// useCEL has definitions validated by Options.CEL.
func (s *Server) useCEL() {
	if s.opts.CEL == nil {
		return
	}
	k := s.registry.find(kinds.CRDs.Group, kinds.CRDs.Version, kinds.CRDs.Plural)
	k.Validate = func(next, cur map[string]any) []kinds.Cause {
		if causes := schema.TooMuch(obj.Get(next, "spec", "versions")); causes != nil {
			return causes
		}
		return s.opts.CEL.Definition(visible(k, next), visible(k, cur))
	}
	for _, k := range s.registry.all() {
		if k.Group != registration {
			continue
		}
		complete, validate := s.opts.CEL.Registration(k.Kind)
		k.Refused, k.Defaults = "", complete
		k.Generation = func(next, cur map[string]any) bool {
			return !patch.Equal(next["spec"], cur["spec"]) || !patch.Equal(next["webhooks"], cur["webhooks"])
		}
		k.Validate = func(next, cur map[string]any) []kinds.Cause {
			return validate(visible(k, next), visible(k, cur))
		}
	}
	s.makePlugins = append(s.makePlugins, func(tx *store.Tx) []admission.Plugin {
		stored := func(plural string) []map[string]any {
			return visibles(s.registry.find(registration, "v1", plural), tx.List(plural+"."+registration, ""))
		}
		list := func(k *kinds.Kind, namespace string) []map[string]any {
			return visibles(k, s.store.List(k.TableName(), namespace))
		}
		return s.opts.CEL.Policies(stored, Params{Kind: s.registry.ofKind, List: list})
	})
}

// TypeCheck is that of Options.CEL, for the kinds that are served now.
func (s *Server) TypeCheck(spec []byte) []any { return s.opts.CEL.TypeCheck(spec, s.registry.all()) }

func visibles(k *kinds.Kind, list []*store.Object) []map[string]any {
	return obj.Each(list, func(o *store.Object) map[string]any { return visible(k, forms.Served(k, o)) })
}

// unchecked says that rules were not evaluated, because they may rely on what other errors are about.
var unchecked = kinds.Cause{Reason: "FieldValueInvalid", Field: "<nil>", Message: "Invalid value: null: some " +
	"validation rules were not checked because the object was invalid; correct the existing errors to complete " +
	"validation"}

// addRules adds the rules in CEL to the validation of a custom resource.
func (s *Server) addRules(k *kinds.Kind, sc *schema.Schema) {
	if s.opts.CEL == nil {
		return
	}
	rules, validate := s.opts.CEL.Rules(k.OpenAPI), k.Validate
	if rules == nil {
		return
	}
	k.Validate = func(next, cur map[string]any) []kinds.Cause {
		out := validate(next, cur)
		for _, c := range out {
			switch c.Reason {
			case "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
				"FieldValueTypeInvalid":
				return append(out, unchecked)
			}
		}
		if cur != nil {
			cur = sc.Default(cur) // it may have been stored under an older schema
		}
		return append(out, rules(visible(k, next), visible(k, cur))...)
	}
}

// visible returns what rules see of an object: all but who owns its fields. It is nil for nil.
func visible(k *kinds.Kind, o map[string]any) map[string]any {
	if o == nil {
		return nil
	}
	o = forms.Typed(k, o)
	meta := obj.Shallow(obj.Map(o, "metadata"))
	delete(meta, "managedFields")
	o["metadata"] = meta
	return o
}

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
			addresses := obj.Each(obj.Maps(subset, "addresses"),
				func(a map[string]any) string { return obj.String(a, "ip") })
			if address := pick(obj.Maps(subset, "ports"), addresses); address != "" {
				return address
			}
		}
	}
	return ""
}
