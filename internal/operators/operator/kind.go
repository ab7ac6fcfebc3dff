package operator

import (
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// Kind is a kind of children of an operator.
type Kind func(s controller.Setup, owner kube.Resource) (apply.Kind, controller.Source)

// Owns is a kind of children, T an *apply.Live with what the operator reads of the status. It reads reads, if given,
// in the body (see apply.Read).
func Owns[T apply.LiveObject](r kube.Resource, strategy apply.Strategy, reads ...func() any) Kind {
	return func(s controller.Setup, owner kube.Resource) (apply.Kind, controller.Source) {
		m := controller.Mirror[T](s, r, apply.ManagedBySelector)
		kind := apply.Of(m, strategy)
		for _, read := range reads {
			kind = kind.Reading(read)
		}
		if !owner.ClusterScoped {
			return kind, controller.Owns(m, owner.Kind)
		}
		return kind, controller.Watches(m, func(child T) []kube.Key {
			if o, ok := child.ObjectMeta().Controller(); ok && o.Kind == owner.Kind {
				return []kube.Key{{Name: o.Name}}
			}
			return nil
		})
	}
}

// Replaces is a kind of children that cannot be changed, such as pods. O is what the pointer type T points to.
func Replaces[O any, T interface {
	*O
	kube.Object
}](r kube.Resource, o apply.ReplaceOptions[T]) Kind {
	return func(s controller.Setup, owner kube.Resource) (apply.Kind, controller.Source) {
		m := controller.Mirror[T](s, r, apply.ManagedBySelector)
		return apply.Replace(m, o), controller.Owns(m, owner.Kind)
	}
}
