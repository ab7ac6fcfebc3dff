// Package kinds holds what the embedded API server knows of each built-in kind, as tables of data: where it is served,
// its subresources, defaults, rules, selectable fields and printer columns. Adding a kind is adding an entry. Custom
// resources become the same Kind, made by package fakeapi from their definition.
//
// It is pure: functions on map[string]any, no storage, no HTTP, no goroutine.
package kinds

import (
	"cmp"
	"slices"
	"time"

	"skiff/internal/fakeapi/fields"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// Object is the JSON of one object.
type Object = map[string]any

// Kind is one resource as served in one version.
type Kind struct {
	kube.Resource
	Table      string // where it is stored; "" means its GroupResource. Views of one store share a table (events)
	Singular   string // "" means the lower case Kind
	ListKind   string // "" means Kind + "List"
	ShortNames []string
	Categories []string
	Warning    string // comes with each answer: the kind is deprecated

	Status    bool             // it has the subresource status
	NewStatus func(Object) any // the status of a new object; nil means none
	Scale     *Scale           // it has the subresource scale
	Custom    bool             // a custom resource: items of its lists carry apiVersion and kind
	Node      *patch.Node      // merge keys and list types
	Type      *fields.Type     // the fields of a built-in kind; nil for a custom resource, which has a schema
	StoredAs  string           // apiVersion of its stored form; "" means its own. See View
	Stored    *fields.Type     // the fields of that

	Name           func(name string) string       // says what is wrong with a name; nil means a DNS-1123 subdomain
	Generation     func(next, cur Object) bool    // the change makes a new generation; nil: the kind has no generation
	NeedsVersion   bool                           // PUT without a resourceVersion is refused instead of overwriting
	CreateOnUpdate bool                           // PUT to a missing name creates
	DeleteReturns  bool                           // DELETE answers with the object instead of a Status
	OrphanWarning  string                         // DELETE without a policy orphans the dependents, with this warning
	Graceful       func(Object, *int64) int64     // seconds between DELETE and removal; nil: removed at once
	Prepare        func(next, cur Object)         // what the server sets or drops itself; cur is nil for a new object
	Defaults       func(Object)                   // fills in what the client left open
	Validate       func(next, cur Object) []Cause // cur is nil for a new object
	// Allocate gives out what must be unique among all objects of the kind (others), such as a cluster IP; rand is
	// math/rand's IntN.
	Allocate func(next, cur Object, others func() []Object, rand func(int) int) []Cause
	Fields   map[string]func(Object) string // selectable fields besides metadata.name and metadata.namespace
	Columns  []Column                       // of a Table, behind the name
	// stored form to served form; nil: the same. Never changes its argument
	View  func(Object) Object
	Store func(Object) Object // served form to stored form; nil: the same. May change its argument
	Shape any                 // identifies the schema an object was written under; see fakeapi
	// the schema as `kubectl explain` shows it; nil: only the kind is known
	OpenAPI Object
	// answers a POST with a status; nothing is stored, and there is no other verb
	Review  func(Object, User) (Object, []Cause)
	Unknown func(Object) []string // prunes what the schema does not know and returns the paths; nil: nothing
}

// Scale says where the scale subresource finds its numbers.
type Scale struct {
	Spec, Status []string // paths of the wanted and the observed count
	Selector     []string // path of the selector: a string, or a LabelSelector; nil = none
}

// Column is one column of a Table.
type Column struct {
	Name, Type, Format, Description string
	Priority                        int // 1 is shown by -o wide only
	Cell                            func(o Object, now time.Time) any
}

// TableName returns the name of the store's table.
func (k *Kind) TableName() string {
	if k.Table != "" {
		return k.Table
	}
	return k.GroupResource()
}

// List returns the kind of a list of the kind.
func (k *Kind) List() string {
	if k.ListKind != "" {
		return k.ListKind
	}
	return k.Kind + "List"
}

// groupOrder is the order in which the real server lists the groups of the built-in kinds: kubectl resolves names that
// several groups have in favour of the first.
var groupOrder = []string{"", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
	"batch", "networking.k8s.io", "policy", rbacGroup, "apiextensions.k8s.io", "coordination.k8s.io"}

// Builtin returns fresh entries for all built-in kinds, in the order of discovery.
func Builtin() []*Kind {
	all := slices.Concat(core(), apps(), reviews(), scalers(), batch(), network(), policies(), rbac(), other())
	slices.SortStableFunc(all, func(a, b *Kind) int {
		return slices.Index(groupOrder,
			a.Group) - slices.Index(groupOrder, b.Group)
	})
	for _, k := range all {
		k.Type = fields.For(k.APIVersion(), k.Kind)
		k.Node = fields.Close(patch.SchemaFor(k.APIVersion(), k.Kind), k.Type)
		k.Unknown = k.Type.Prune
		k.Stored = fields.For(cmp.Or(k.StoredAs, k.APIVersion()), k.Kind)
	}
	return all
}

// specChanged is the rule of most kinds with a generation.
func specChanged(next, cur Object) bool { return !patch.Equal(next["spec"], cur["spec"]) }

// constant makes a NewStatus.
func constant(status Object) func(Object) any {
	return func(Object) any { return obj.Clone(status) }
}
