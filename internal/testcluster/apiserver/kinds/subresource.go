package kinds

import (
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/schema"
)

// Subresource is what is served below each object of a kind.
type Subresource struct {
	Name  string
	Verbs []string
	Kind  kube.Resource // of what is sent and answered; zero: that of the object
	has   func(*Kind) bool
}

// The kinds of subresources that are not those of the object.
var (
	ScaleKind    = kube.Resource{Group: "autoscaling", Version: "v1", Plural: "scale", Kind: "Scale"}
	TokenRequest = kube.Resource{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}
	binding      = kube.Resource{Version: "v1", Kind: "Binding"}
	eviction     = kube.Resource{Group: "policy", Version: "v1", Kind: "Eviction"}
	ofTheObject  kube.Resource
)

var (
	reading, posting, changing = []string{"get"}, []string{"create"}, []string{"get", "patch", "update"}

	connecting = []string{"create", "get"}
	proxying   = []string{"create", "delete", "get", "patch", "update"}
)

// subresources are those of all kinds, in the order of discovery.
var subresources = []*Subresource{
	{"approval", changing, ofTheObject, func(k *Kind) bool { return k.Approval }},
	{"attach", connecting, kube.Resource{Version: "v1", Kind: "PodAttachOptions"}, of("pods")},
	{"binding", posting, binding, of("pods")},
	{"ephemeralcontainers", changing, ofTheObject, of("pods")},
	{"eviction", posting, eviction, of("pods")},
	{"exec", connecting, kube.Resource{Version: "v1", Kind: "PodExecOptions"}, of("pods")},
	{"finalize", []string{"update"}, ofTheObject, of("namespaces")},
	{"log", reading, ofTheObject, of("pods")},
	{"portforward", connecting, kube.Resource{Version: "v1", Kind: "PodPortForwardOptions"}, of("pods")},
	{"proxy", proxying, kube.Resource{Version: "v1", Kind: "PodProxyOptions"}, of("pods")},
	{"proxy", proxying, kube.Resource{Version: "v1", Kind: "ServiceProxyOptions"}, of("services")},
	{"proxy", proxying, kube.Resource{Version: "v1", Kind: "NodeProxyOptions"}, of("nodes")},
	{"resize", changing, ofTheObject, of("pods")},
	{"scale", changing, ScaleKind, func(k *Kind) bool { return k.Scale != nil }},
	{"status", changing, ofTheObject, func(k *Kind) bool { return k.Status }},
	{"token", posting, TokenRequest, of("serviceaccounts")},
}

func of(table string) func(*Kind) bool { return func(k *Kind) bool { return k.TableName() == table } }

// Subresources returns the subresources of a kind, in the order of discovery.
func (k *Kind) Subresources() (out []*Subresource) {
	for _, s := range subresources {
		if s.has(k) {
			out = append(out, s)
		}
	}
	return out
}

// Connects reports whether requests for a subresource are for what runs in a pod or behind a Service, or a kubelet.
func Connects(subresource string) bool {
	return slices.Contains([]string{"attach", "exec", "portforward", "proxy"}, subresource)
}

// Sent returns the kind of what is sent to a subresource of k and answered by it.
func (s *Subresource) Sent(k *Kind) *Kind {
	switch {
	case s.Kind == ofTheObject:
		return k
	case Connects(s.Name): // with parameters only
		return &Kind{Resource: s.Kind}
	}
	form := schema.For(s.Kind.APIVersion(), s.Kind.Kind)
	return &Kind{Resource: s.Kind, Type: form, Unknown: form.Prune,
		Node: schema.Close(patch.SchemaFor(s.Kind.APIVersion(), s.Kind.Kind), form)}
}
