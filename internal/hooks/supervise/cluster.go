package supervise

import (
	"context"

	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// The objects that declare hook controllers in a cluster.
var (
	Composites = kube.Resource{Group: spec.Group, Version: spec.Version, Plural: "compositecontrollers",
		Kind: spec.Composite, ClusterScoped: true}
	Decorators = kube.Resource{Group: spec.Group, Version: spec.Version, Plural: "decoratorcontrollers",
		Kind: spec.Decorator, ClusterScoped: true}
)

// FromCluster returns the controllers that have s run the hook controllers declared in a cluster, as far as a label
// selector selects. Programs run only for the KIND/NAME in allowExec: without the list, the right to write such an
// object would be the right to run commands here. These controllers work on standbys, too, so that the mirrors are
// warm.
func (s *Supervisor) FromCluster(selector string, allowExec []string) []*controller.Controller {
	setup := s.o.Setup
	setup.Elected, setup.Namespaces, setup.Workers = false, nil, 1
	var out []*controller.Controller
	for _, r := range []kube.Resource{Composites, Decorators} {
		objects := controller.Mirror[*reconcile.Object](setup, r, selector)
		out = append(out, setup.New(r.Plural, func(_ context.Context, key kube.Key) (controller.Outcome, error) {
			object, ok, err := objects.Get(key)
			switch {
			case err != nil:
				return controller.Done, err
			case !ok || object.Deleting():
				s.Drop(r.Kind, key.Name)
				return controller.Done, nil
			}
			c, err := read(r, object, allowExec)
			if err != nil {
				s.Drop(r.Kind, key.Name)
				s.o.Recorder.Record(events.Event{Regarding: events.ObjectOf(r, object), Type: events.Warning,
					Reason: "CreateError", Action: "Supervise", Note: err.Error()})
				return controller.Done, controller.TerminalFor("CreateError", err)
			}
			s.Put(c)
			return controller.Done, nil
		}, controller.For(objects)))
	}
	return out
}

// Rights are the rights to see the declarations of a cluster.
var Rights = []kube.Right{
	{Resource: Composites, Verbs: []string{"get", "list", "watch"}, Why: "the controllers to run"},
	{Resource: Decorators, Verbs: []string{"get", "list", "watch"}, Why: "the controllers to run"},
}

// Invalid is an object of a cluster without a controller that could run.
type Invalid struct {
	Kind, Name string
	Err        error
}

// Declared returns the controllers declared in a cluster, as far as a label selector selects, and the invalid objects.
func Declared(ctx context.Context, client *kube.Client, selector string) (controllers []*spec.Controller,
	invalid []Invalid, err error) {
	for _, r := range []kube.Resource{Composites, Decorators} {
		list, err := kube.List[*reconcile.Object](ctx, client, kube.Query{Resource: r, LabelSelector: selector},
			kube.ListOptions{})
		if err != nil {
			return nil, nil, err
		}
		for _, object := range list.Items {
			c, err := decode(r, object)
			if err != nil {
				invalid = append(invalid, Invalid{r.Kind, object.Name, err})
				continue
			}
			controllers = append(controllers, c)
		}
	}
	return controllers, invalid, nil
}

// decode reads the controller that an object declares.
func decode(r kube.Resource, object *reconcile.Object) (*spec.Controller, error) {
	text, err := reconcile.Encode(r, object)
	if err != nil {
		return nil, err
	}
	return spec.FromObject(text)
}

// read reads the controller in an object, and refuses programs that may not run.
func read(r kube.Resource, object *reconcile.Object, allowExec []string) (*spec.Controller, error) {
	c, err := decode(r, object)
	if err != nil {
		return nil, err
	}
	return c, CheckExec(c, allowExec)
}

// CheckSelector checks the selector of FromCluster.
func CheckSelector(text string) error {
	_, err := labels.Parse(text)
	return err
}
