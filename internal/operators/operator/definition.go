package operator

import (
	"maps"
	"slices"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Object is a custom resource, whose Status embeds Common.
type Object[Spec, Status any] struct {
	kube.MetaOwn `json:"metadata"`
	Spec         Spec   `json:"spec"`
	Status       Status `json:"status"`

	inputs []input // only in the argument of Desired
}

// Input returns an object of a declared input in the namespace of o, nil if there is none of the name.
func (o *Object[Spec, Status]) Input(r kube.Resource, name string) kube.Object {
	for _, in := range o.inputs {
		if in.resource == r && in.name == name {
			return in.object
		}
	}
	return nil
}

func (o *Object[Spec, Status]) meta() *kube.MetaOwn { return &o.MetaOwn }
func (o *Object[Spec, Status]) spec() any           { return &o.Spec }
func (o *Object[Spec, Status]) status() *Status     { return &o.Status }
func (o *Object[Spec, Status]) blank() kube.Object  { return new(Object[Spec, Status]) }

// Shown returns the conditions of the object.
func (o *Object[Spec, Status]) Shown() []conditions.Condition {
	if s, ok := any(&o.Status).(interface{ common() *Common }); ok {
		return s.common().Conditions
	}
	return nil
}

func (o *Object[Spec, Status]) declared(inputs []input) kube.Object {
	out := &Object[Spec, Status]{Spec: o.Spec, inputs: inputs}
	out.Namespace, out.Name, out.UID, out.Generation = o.Namespace, o.Name, o.UID, o.Generation
	return out
}

// object is a pointer to an Object. Generic code over pointers, such as a mirror, is compiled once for all kinds.
type object[Status any] interface {
	kube.Object
	meta() *kube.MetaOwn
	spec() any
	status() *Status
	blank() kube.Object                  // a new object; the receiver may be nil
	declared(inputs []input) kube.Object // a copy with nothing but identity, spec and inputs
}

func blank[T object[Status], Status any]() T {
	var none T
	return none.blank().(T)
}

// Common is part of the status of every custom resource. Status is written as a whole, and null removes: so there is
// no omitempty.
type Common struct {
	ObservedGeneration int64                  `json:"observedGeneration"`
	State              string                 `json:"state"` // for a column of kubectl: see conditions.Set.State
	Conditions         []conditions.Condition `json:"conditions"`
}

// CommonOf returns the Common before, updated from set.
func CommonOf(before *Common, set *conditions.Set, generation int64, now time.Time) Common {
	return Common{generation, set.State(), set.After(before.Conditions, generation, now)}
}

func (c *Common) common() *Common { return c }

// status is a pointer to a Status that embeds Common.
type status[Status any] interface {
	*Status
	common() *Common
}

// Definition is an operator, as data and pure functions. T is a pointer to the operator's Object.
type Definition[T object[Status], Status any] struct {
	Name     string // of the controller, and of the application in the labels of the children
	Resource kube.Resource
	// ShortNames are names of the resource to type in place of the plural.
	ShortNames []string
	Children   []Kind
	Inputs     []Input[T]   // read by Desired beside the custom resource
	Extra      []kube.Right // beyond the rights that follow from other fields
	// Desired returns the children that should exist, the most important first: Degraded is about the first child, and
	// without the first there is no progress. cr has an identity, a spec and the inputs; all else is zero, so that
	// nothing else can change a child. An error names the wrong field of the spec.
	Desired func(cr T) ([]Child, error)
	// Create, if not nil, sets Child.Create of the children, from the whole cr.
	Create func(cr T, children []Child)
	// Observe returns the status that follows from seen, without Common, and the conditions as far as the children
	// themselves say. unready is the zero value where Waits is nil or waits for no pods.
	Observe func(cr T, seen Seen, unready health.Problem) (Status, conditions.Set)
	// Waits, if not nil, returns the selector of the pods that a custom resource waits for, "" if there are none, and
	// since when there was no progress. After a long wait the pods are read, to say why.
	Waits func(cr T, seen Seen, now time.Time) (selector string, since time.Time)
	// Example is a custom resource as short as possible, in YAML.
	Example string
	// Pods shows the pods of a custom resource to users. The pods have the SelectorLabels, and the rights include to
	// list pods.
	Pods bool
	// Finalizer, if not "", is on the custom resource as long as there are replaced children, to be removed in order.
	Finalizer string
	// Known, if not nil, returns the uids of the children that the status names (see apply.Owner).
	Known func(cr T) map[kube.Key]string
	// Problem, if not nil, returns the problem in the result of a child, nil where the usual problem will do.
	Problem func(cr T, r apply.Result) *health.Problem
}

// Declare returns the children of a custom resource for the engine.
func (d Definition[T, Status]) Declare(cr T, inputs ...input) ([]apply.Child, error) {
	children, err := d.Desired(cr.declared(inputs).(T))
	if err != nil {
		return nil, err
	}
	if d.Create != nil {
		d.Create(cr, children)
	}
	return declare(apply.OwnerOf(d.Resource, cr), d.Name, children)
}

// Marks returns the texts computed from the declared children of a custom resource: the hash and the values of the
// labels of each child. Two forms of a custom resource have the same order.
func (d Definition[T, Status]) Marks(raw kube.Raw) (marks []string, err error) {
	cr := blank[T]()
	if err := kube.Unmarshal(raw, cr); err != nil {
		return nil, err
	}
	children, err := d.Declare(cr)
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		hash, err := apply.Hash(child.Body)
		if err != nil {
			return nil, err
		}
		marks = append(marks, hash)
		meta, _ := child.Body["metadata"].(map[string]any)
		labels, _ := meta["labels"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			value, _ := labels[key].(string)
			marks = append(marks, value)
		}
	}
	return marks, nil
}

// Rights are all rights that the operator needs; the client sends nothing else.
func (d Definition[T, Status]) Rights() []kube.Right {
	kind := d.Resource.Kind
	rights := []kube.Right{{Resource: d.Resource, Verbs: []string{"get", "list", "watch"}, Why: "what is declared"}}
	if d.Finalizer != "" {
		rights = append(rights, kube.Right{Resource: d.Resource, Verbs: []string{"patch"},
			Why: "the finalizer of a " + kind})
	}
	rights = append(rights,
		kube.Right{Resource: d.Resource, Subresource: "status", Verbs: []string{"patch"}, Why: "what was seen"},
		kube.Right{Resource: d.Resource, Subresource: "finalizers", Verbs: []string{"update"},
			Why: "owner references, where OwnerReferencesPermissionEnforcement is on"})
	for _, child := range d.Children {
		rights = append(rights, kube.Right{Resource: child.resource, Why: "children of a " + kind,
			Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}})
	}
	for _, in := range d.Inputs {
		rights = append(rights, kube.Right{Resource: in.resource, Verbs: []string{"list", "watch"},
			Why: "what a " + kind + " reads"})
	}
	if d.Waits != nil {
		rights = append(rights, kube.Right{Resource: pods, Verbs: []string{"list"}, Why: "why the pods of a " + kind +
			" are not ready"})
	}
	return append(append(rights, d.Extra...), events.Rights...)
}

// Kind is a kind of children of an operator.
type Kind struct {
	resource kube.Resource
	connect  func(s controller.Setup, owner kube.Resource) (apply.Kind, controller.Source)
}

// Owns is a kind of children that are changed in place. T is an *apply.Live with the fields that the operator reads of
// the status: for pointers as type parameters, a single mirror is compiled for all kinds.
func Owns[T apply.LiveObject](r kube.Resource) Kind {
	return Kind{r, func(s controller.Setup, owner kube.Resource) (apply.Kind, controller.Source) {
		m := controller.Mirror[T](s, r, apply.ManagedBySelector)
		return apply.Of(m, apply.InPlace), controller.Owns(m, owner.Kind)
	}}
}

// Replaces is a kind of children that cannot be changed, such as pods.
func Replaces[T kube.Object](r kube.Resource, o apply.ReplaceOptions[T]) Kind {
	return Kind{r, func(s controller.Setup, owner kube.Resource) (apply.Kind, controller.Source) {
		m := controller.Mirror[T](s, r, apply.ManagedBySelector)
		return apply.Replace(m, o), controller.Owns(m, owner.Kind)
	}}
}

// Input is a kind of objects that Desired reads; see Reads.
type Input[T kube.Object] struct {
	resource kube.Resource
	names    func(cr T) []string
	connect  func(s controller.Setup, objects *cache.Store[T]) (mirror getter, source controller.Source)
}

type getter func(k kube.Key) (kube.Object, error)

// input is an object that was read; nil: there is none of the name.
type input struct {
	resource kube.Resource
	name     string
	object   kube.Object
}

// Reads is an input: the objects of a resource that a custom resource names, in the same namespace. P is a pointer to
// O, with the fields that are read. A change of an object runs the operator for each custom resource that names
// the object. names is a pure function of the spec.
func Reads[O any, T kube.Object, P interface {
	*O
	kube.Object
}](r kube.Resource, names func(cr T) []string) Input[T] {
	return Input[T]{r, names, func(s controller.Setup, objects *cache.Store[T]) (getter, controller.Source) {
		m, index := controller.Mirror[P](s, r, ""), "input "+r.GroupResource()
		objects.Index(index, names)
		get := func(k kube.Key) (kube.Object, error) {
			object, ok, err := m.Get(k)
			if !ok {
				return nil, err
			}
			return object, err
		}
		return get, controller.Watches(m, func(object P) (keys []kube.Key) {
			of := object.ObjectMeta()
			readers, _ := objects.ByIndex(index, of.Namespace, of.Name) // before the first list: all run afterwards
			for _, cr := range readers {
				keys = append(keys, cr.ObjectMeta().Key())
			}
			return keys
		})
	}}
}
