// Package kinds describes the built-in kinds of the embedded API server: where each is served, its subresources,
// defaults, validation, selectable fields and printer columns. They are data, the files in the directory data, and a
// new kind is a new entry there; its README explains the format. The fields themselves are in package schema. For
// custom resources package apiserver makes the same Kind from the definition.
//
// Its functions are pure functions on map[string]any. They store nothing, know no HTTP and start no goroutine.
package kinds

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// Object is the JSON of one object.
type Object = map[string]any

// Cause is one invalid field.
type Cause = obj.Cause

// Kind is one resource as served in one version.
type Kind struct {
	kube.Resource
	Table      string // its table in the store; "" means its GroupResource. Two versions of Events share one
	Singular   string // "" means the lower case Kind
	ListKind   string // "" means Kind + "List"
	ShortNames []string
	Categories []string
	Warning    string // sent with each answer: the kind is deprecated

	Status    bool             // it has the subresource status
	Isolated  bool             // the subresource status changes no metadata
	Approval  bool             // it has the subresource approval
	Author    bool             // its spec names the user who created it
	ReadOnly  bool             // the server makes its objects: they are read only, and not watched
	Refused   string           // what this server cannot do: objects of the kind are not accepted
	NewStatus func(Object) any // the status of a new object; nil means none
	Scale     *Scale           // it has the subresource scale
	Custom    bool             // a custom resource: items of its lists carry apiVersion and kind
	Node      *patch.Node      // merge keys and list types
	Type      *schema.Type     // the fields of a built-in kind; nil for a custom resource, which has a schema
	StoredAs  string           // apiVersion of its stored form; "" means its own. See View
	Stored    *schema.Type     // the fields of that

	// returns what is wrong with a name; nil means that a DNS-1123 subdomain is required
	Name func(name string) string
	// reports whether a change increases the generation; nil: the kind has none
	Generation     func(next, cur Object) bool
	NeedsVersion   bool                       // a PUT without a resourceVersion is refused
	CreateOnUpdate bool                       // a PUT creates a missing object
	DeleteReturns  bool                       // DELETE returns the object instead of a Status
	OrphanWarning  string                     // DELETE without a policy orphans the dependents, with this warning
	Graceful       func(Object, *int64) int64 // seconds between DELETE and removal; nil: removed at once
	// sets or drops fields that the server controls; cur is nil for a new object
	Prepare  func(next, cur Object)
	Defaults func(Object)                   // sets defaults
	Warn     warner                         // nil: it has no warnings
	Validate func(next, cur Object) []Cause // cur is nil for a new object
	// Allocate allocates values that no other object of the kind has (taken), such as a cluster IP; rand is
	// math/rand's IntN. An error is the server's own: there is nothing left to allocate.
	Allocate func(next Object, taken func(string) bool, rand func(int) int) ([]Cause, error)
	Fields   map[string]func(Object) string // selectable fields besides metadata.name and metadata.namespace
	Columns  []Column                       // of a Table, after the name
	// converts the stored to the served form; nil: they are equal. It does not change its argument
	View func(Object) Object
	// converts the served to the stored form; nil: they are equal. It may change its argument
	Store func(Object) Object
	Shape any // identifies the schema that an object was written under; see apiserver
	// the schema for `kubectl explain`; nil: only the kind is known
	OpenAPI Object
	// the status that answers a POST, which Validate has checked; nothing is stored, and no other verb is served
	Review  func(User) Object
	Unknown func(Object) []string // prunes unknown fields and returns their paths; nil: none are unknown
	// Embedded says what is wrong with the types in the metadata of embedded objects; nil: there are none
	Embedded func(Object) string
}

// Scale has the paths of the fields that the scale subresource shows.
type Scale struct {
	Spec, Status []string // of the declared and the current number of replicas
	Selector     []string // of the selector: a string, or a LabelSelector; nil = none
	Plain        bool     // the selector is the labels alone
}

// Column is one column of a Table.
type Column struct {
	Name, Type, Format, Description string
	Priority                        int // 1 is printed by -o wide only
	Cell                            func(o Object, now time.Time) any
}

// TableName returns the name of the store's table.
func (k *Kind) TableName() string {
	if k.Table != "" {
		return k.Table
	}
	return k.GroupResource()
}

// ToStore returns an object of the kind in the form to store.
func (k *Kind) ToStore(o Object) Object {
	if k.Store == nil {
		return o
	}
	return k.Store(o)
}

// ToServe returns a stored object in the form of the kind.
func (k *Kind) ToServe(o Object) Object {
	if k.View == nil {
		return o
	}
	return k.View(o)
}

// CRDs is the resource of custom resource definitions.
var CRDs = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

// List returns the kind of a list of the kind.
func (k *Kind) List() string {
	if k.ListKind != "" {
		return k.ListKind
	}
	return k.Kind + "List"
}

// Verbs returns what is served of the objects of the kind, in the order of discovery.
func (k *Kind) Verbs() []string {
	switch {
	case k.Review != nil:
		return posting
	case k.ReadOnly:
		return []string{"get", "list"}
	case k.TableName() == "namespaces":
		return strings.Fields("create delete get list patch update watch")
	}
	return strings.Fields("create delete deletecollection get list patch update watch")
}

// groupOrder is the real server's order of the built-in groups. If several groups have a name, kubectl takes the
// first.
var groupOrder = strings.Fields("apiregistration.k8s.io apps events.k8s.io authentication.k8s.io " +
	"authorization.k8s.io autoscaling batch certificates.k8s.io networking.k8s.io policy rbac.authorization.k8s.io " +
	"storage.k8s.io admissionregistration.k8s.io apiextensions.k8s.io scheduling.k8s.io coordination.k8s.io " +
	"node.k8s.io discovery.k8s.io resource.k8s.io flowcontrol.apiserver.k8s.io")

// Builtin returns fresh entries for all built-in kinds of a version, in the order of discovery.
func Builtin(set features.Set) []*Kind {
	d := described()
	var all []*Kind
	for _, l := range d.kinds {
		k := d.kind(l)
		if k.Type = schema.In(set, k.APIVersion(), k.Kind); k.Type == nil {
			continue
		}
		if k.Kind == "Endpoints" && !set.Since(33) {
			k.Warning = "" // which says that they are deprecated since then
		}
		switch {
		case k.Kind == "Pod":
			k.Graceful = podGrace
		case k.Plural == "services":
			k.Allocate = allocateService
		case k.Plural == "horizontalpodautoscalers" && k.StoredAs != "":
			k.View, k.Store = oldScaler, newScaler
		case k.Plural == "events" && k.StoredAs != "":
			k.View, k.Store = newEvent, oldEvent
		}
		all = append(all, k)
	}
	slices.SortStableFunc(all, func(a, b *Kind) int {
		return cmp.Or(slices.Index(groupOrder, a.Group)-slices.Index(groupOrder, b.Group),
			strings.Compare(a.Plural, b.Plural))
	})
	describe(all)
	for _, k := range all {
		k.Node = k.Type.Node()
		k.Unknown = k.Type.Prune
		k.Stored = schema.In(set, cmp.Or(k.StoredAs, k.APIVersion()), k.Kind)
		prepare := k.Prepare
		k.Prepare = func(next, cur Object) {
			k.Type.DropDisabled(next, cur)
			if prepare != nil {
				prepare(next, cur)
			}
		}
	}
	return all
}

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
func (k *Kind) Subresources() []*Subresource {
	return slices.DeleteFunc(slices.Clone(subresources), func(s *Subresource) bool { return !s.has(k) })
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
		Node: form.Node()}
}
