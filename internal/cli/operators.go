package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/operators/redis"
	"skiff/internal/operators/reload"
	"skiff/internal/operators/restart"
	"skiff/internal/operators/webserver"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// tuning is what flags say to controllers of one kind.
type tuning struct {
	floors  floorFlags
	sources sourceFlags
	reload  reloadFlags
}

func (t *tuning) add(cmd *cobra.Command) {
	t.floors.add(cmd)
	t.sources.add(cmd)
	t.reload.add(cmd)
}

func (t *tuning) check() error {
	return errors.Join(t.floors.check(), t.sources.check(), t.reload.check())
}

// maker makes the controllers of a name.
type maker func(controller.Setup, *events.Recorder, *tuning) []*controller.Controller

// untuned is the maker of one controller without flags of its own.
func untuned(of func(controller.Setup, *events.Recorder) *controller.Controller) maker {
	return func(s controller.Setup, r *events.Recorder, _ *tuning) []*controller.Controller {
		return []*controller.Controller{of(s, r)}
	}
}

// newRestarter makes the controller of RestartTriggers.
func newRestarter(s controller.Setup, r *events.Recorder, t *tuning) []*controller.Controller {
	o := restart.Options{Floors: t.floors.Floors, Sources: t.sources.Sources}
	return []*controller.Controller{restart.New(s, r, o)}
}

// newReloaders makes the controllers of workloads that depend on ConfigMaps and Secrets.
func newReloaders(s controller.Setup, r *events.Recorder, t *tuning) []*controller.Controller {
	return reload.New(s, r, t.reload.Options)
}

// builtIn is one of skiff's controllers.
type builtIn struct {
	name   string
	new    maker
	rights []kube.Right // all resources in use, the custom resource first; `skiff manifests` makes roles of these
	// container is the declared container in the pods of a custom resource with a spec.template; "": there is none.
	container string
	marks     func(kube.Raw) ([]string, error) // the marks of children about how they were declared; nil: none
	works     []kube.Resource                  // of the objects worked for, if no custom resource
	sourced   bool                             // the rights are those for the sources of RestartTriggers
}

// operators are skiff's controllers with their names in --controllers. A new operator is one line here.
var operators = []builtIn{
	{name: "webserver", new: untuned(webserver.New), rights: webserver.Rights, container: webserver.Container,
		marks: webserver.Marks},
	{name: "redis", new: untuned(redis.New), rights: redis.Rights, container: redis.Container, marks: redis.Marks},
	{name: "restart", new: newRestarter, rights: restart.Rights, sourced: true},
	{name: reload.Name, new: newReloaders, rights: reload.Rights, works: reload.Kinds},
}

// worksFor returns the resources of the objects that a controller works for.
func (b *builtIn) worksFor() []kube.Resource {
	if len(b.works) > 0 {
		return b.works
	}
	return []kube.Resource{b.rights[0].Resource}
}

// rightsFor are the rights of a controller where RestartTriggers may have these sources.
func (b *builtIn) rightsFor(s restart.Sources) []kube.Right {
	if b.sourced {
		return s.Rights()
	}
	return b.rights
}

// asked says that a controller runs only where --controllers names the controller: nobody grants the right to read
// all Secrets by default.
func (b *builtIn) asked() bool { return len(b.works) > 0 }

// Marks returns the texts in the children of a custom resource of skiff that are computed from the custom resource, in
// an order that does not depend on values; nil of any other object.
func Marks(apiVersion, kind string, raw kube.Raw) ([]string, error) {
	for _, op := range operators {
		if r := op.rights[0].Resource; op.marks != nil && r.Kind == kind && r.APIVersion() == apiVersion {
			return op.marks(raw)
		}
	}
	return nil, nil
}

// ControllerNames returns the names of the controllers that run by default, in the order of the table.
func ControllerNames() []string { return namesOf((*builtIn).asked, false) }

// knownControllers returns the names of all.
func knownControllers() []string {
	return append(ControllerNames(), namesOf((*builtIn).asked, true)...)
}

func namesOf(has func(*builtIn) bool, want bool) (names []string) {
	for i := range operators {
		if has(&operators[i]) == want {
			names = append(names, operators[i].name)
		}
	}
	return names
}

// areDefault says whether names are those of the controllers that run by default.
func areDefault(names []string) bool {
	names = slices.Sorted(slices.Values(names))
	return slices.Equal(names, slices.Sorted(slices.Values(ControllerNames())))
}

// checkControllers checks the value of --controllers.
func checkControllers(names []string) error {
	known := knownControllers()
	if len(names) == 0 {
		return Usagef("--controllers: name at least one of %s", strings.Join(known, ", "))
	}
	for i, name := range names {
		if !slices.Contains(known, name) {
			return Usagef("--controllers: unknown controller %q: %s", name, Instead(name, known))
		}
		if slices.Contains(names[:i], name) {
			return Usagef("--controllers: %q is listed twice", name)
		}
	}
	return nil
}

// newControllers makes the named controllers and the recorders of their Events. The manager runs both, and sends the
// last Events before it releases the lease.
func newControllers(names []string, s controller.Setup, t *tuning) (cs []*controller.Controller,
	rs []*events.Recorder) {
	s.Mirrors = cache.NewMirrors()
	if limit, limited := cache.MemoryLimit(); limited {
		s.InFlight = controller.NewInFlight(limit)
	}
	if s.NamespaceSelector != "" {
		cs = append(cs, controller.SelectNamespaces(s))
	}
	for _, op := range operators {
		if slices.Contains(names, op.name) {
			r := events.New(events.Options{Client: s.Client, Controller: "skiff.dev/" + op.name, Log: s.Log})
			cs, rs = append(cs, op.new(s, r, t)...), append(rs, r)
		}
	}
	return cs, rs
}
