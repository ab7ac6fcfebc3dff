package kinds

import (
	"skiff/internal/fakeapi/fields"
	"skiff/internal/kube"
	"skiff/internal/patch"
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

var reading, posting, changing = []string{"get"}, []string{"create"}, []string{"get", "patch", "update"}

// subresources are those of all kinds, in the order of discovery.
var subresources = []*Subresource{
	{"approval", changing, ofTheObject, func(k *Kind) bool { return k.Approval }},
	{"binding", posting, binding, of("pods")},
	{"ephemeralcontainers", changing, ofTheObject, of("pods")},
	{"eviction", posting, eviction, of("pods")},
	{"finalize", []string{"update"}, ofTheObject, of("namespaces")},
	{"log", reading, ofTheObject, of("pods")},
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

// Sent returns the kind of what is sent to a subresource of k and answered by it.
func (s *Subresource) Sent(k *Kind) *Kind {
	if s.Kind == ofTheObject {
		return k
	}
	form := fields.For(s.Kind.APIVersion(), s.Kind.Kind)
	return &Kind{Resource: s.Kind, Type: form, Unknown: form.Prune,
		Node: fields.Close(patch.SchemaFor(s.Kind.APIVersion(), s.Kind.Kind), form)}
}
