// Package offline tries the hooks of a controller with objects from files: the package makes the request for a parent
// and checks the answer, both as the controller would.
//
// No cluster is asked, and so the kinds have to be found: Kubernetes' own in a table, custom resources in definitions
// and objects of the files, and the rest by the names of the resources. Package call calls the hook, and the caller
// prints.
// Functions on the caller's goroutine, on no event path.
package offline

import (
	"errors"
	"fmt"
	"slices"

	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
)

// Files name the files and directories with the objects.
type Files struct {
	Definitions []string // with CustomResourceDefinitions, among others
	Parent      string
	Children    []string
	Related     []string
}

// Trial is a parent with the other objects of a request.
type Trial struct {
	*reconcile.Offline
	Warnings []string

	spec     *spec.Controller
	kinds    kinds
	schemas  map[string]*discovery.Schema // of definitions, by apiVersion and kind
	served   map[string]discovery.Schemas // of a cluster, by apiVersion
	options  reconcile.Options
	parent   *reconcile.Object
	children []*object
	related  []*object
}

// object is an object of a file.
type object struct {
	APIVersion string
	Kind       string
	*reconcile.Object
}

// The fields given to each object by a server. Hooks put the uid into names, selectors and owner references.
const (
	firstUID        = "00000000-0000-4000-8000-000000000001"
	firstGeneration = 1
	firstNamespace  = "default"
)

// New reads the files.
func New(c *spec.Controller, f Files) (*Trial, error) {
	t := &Trial{spec: c, schemas: map[string]*discovery.Schema{}, served: map[string]discovery.Schemas{}}
	if err := t.define(f.Definitions); err != nil {
		return nil, err
	}
	parents, err := readObjects([]string{f.Parent})
	if err != nil {
		return nil, fmt.Errorf("--parent: %w", err)
	}
	if t.children, err = readObjects(f.Children); err != nil {
		return nil, fmt.Errorf("--children: %w", err)
	}
	if t.related, err = readObjects(f.Related); err != nil {
		return nil, fmt.Errorf("--related: %w", err)
	}
	if len(parents) != 1 {
		return nil, fmt.Errorf("--parent %s: has %d objects, want one", f.Parent, len(parents))
	}
	if err := t.setParent(parents[0]); err != nil {
		return nil, fmt.Errorf("--parent %s: %w", f.Parent, err)
	}
	for _, o := range slices.Concat(t.children, t.related) {
		if r := t.kinds.learn(o.APIVersion, o.Kind); !r.ClusterScoped && o.Namespace == "" {
			o.Namespace = firstNamespace
			if t.parent.Namespace != "" {
				o.Namespace = t.parent.Namespace
			}
		}
	}
	t.resolve()
	for _, o := range t.children {
		if i := slices.IndexFunc(t.options.Children, o.is); i < 0 {
			t.warn("--children: %s %s is left out: the controller does not declare its kind", o.Kind, o.Key())
		}
	}
	if !t.Selected() {
		t.warn("--parent: the controller does not select it: its labels or annotations are others")
	}
	return t, nil
}

func (t *Trial) warn(format string, args ...any) {
	t.Warnings = append(t.Warnings, fmt.Sprintf(format, args...))
}

func (o *object) is(r kube.Resource) bool { return o.Kind == r.Kind && o.APIVersion == r.APIVersion() }

// define reads the definitions among other objects.
func (t *Trial) define(paths []string) error {
	raws, err := spec.ReadObjects(paths)
	if err != nil {
		return err
	}
	for _, read := range raws {
		raw := read.Raw
		var d struct {
			Kind string `json:"kind"`
			definition
		}
		if err := kube.Unmarshal(raw, &d); err == nil && d.Kind == "CustomResourceDefinition" {
			t.kinds.define(d.definition)
			for _, v := range d.Spec.Versions {
				t.schemas[d.Spec.Group+"/"+v.Name+" "+d.Spec.Names.Kind] = v.Schema.OpenAPIV3Schema
			}
		}
	}
	return nil
}

func readObjects(paths []string) ([]*object, error) {
	raws, err := spec.ReadObjects(paths)
	if err != nil {
		return nil, err
	}
	var out []*object
	for _, read := range raws {
		raw := read.Raw
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		o := new(reconcile.Object)
		if err := errors.Join(kube.Unmarshal(raw, &head), kube.Unmarshal(raw, o)); err != nil {
			return nil, fmt.Errorf("%s %s: %w", head.Kind, o.Key(), err)
		}
		if head.APIVersion == "" || head.Kind == "" || o.Name == "" {
			return nil, fmt.Errorf("an object has no apiVersion, kind or metadata.name: %.100s", raw)
		}
		out = append(out, &object{head.APIVersion, head.Kind, o})
	}
	return out, nil
}

// setParent finds the rule for the parent, and gives the parent the fields of a server.
func (t *Trial) setParent(o *object) error {
	r := t.kinds.learn(o.APIVersion, o.Kind)
	i := slices.IndexFunc(t.spec.Parents, func(p spec.Parent) bool {
		return p.APIVersion == o.APIVersion && p.Resource == r.Plural
	})
	if i < 0 {
		return fmt.Errorf("%s of %s is no parent of %s %s, which has %s of %s", o.Kind, o.APIVersion, t.spec.Kind,
			t.spec.Name, t.spec.Parents[0].Resource, t.spec.Parents[0].APIVersion)
	}
	if o.UID == "" {
		o.UID = firstUID
	}
	if o.Generation == 0 {
		o.Generation = firstGeneration
	}
	if !r.ClusterScoped && o.Namespace == "" {
		o.Namespace = firstNamespace
	}
	t.parent = o.Object
	t.options = reconcile.Options{Spec: t.spec, Rule: t.spec.Parents[i], Parent: discovery.Resource{Resource: r}}
	return nil
}

// resolve finds the kinds of the children, as far as they are known now.
func (t *Trial) resolve() {
	t.options.Children = nil
	for _, c := range t.spec.Children {
		r, _ := t.kinds.find(c.Type)
		t.options.Children = append(t.options.Children, r)
	}
	t.Offline = reconcile.NewOffline(t.options, t.parent)
}

// Guessed names the kinds guessed from the names of their resources.
func (t *Trial) Guessed() (out []string) {
	for _, c := range t.spec.Children {
		if r, guessed := t.kinds.find(c.Type); guessed {
			out = append(out, fmt.Sprintf("the kind of %s is taken to be %s: -f may name its definition", r, r.Kind))
		}
	}
	return out
}

// Request returns the request to a hook. rules are the answer of customize.
func (t *Trial) Request(hook wire.Hook, rules []wire.Rule) ([]byte, error) {
	var children, related []reconcile.Objects
	for _, r := range t.options.Children {
		children = append(children, reconcile.Objects{Resource: r,
			Items: pick(t.children, r, func(*object) bool { return true })})
	}
	for _, rule := range rules {
		r, _ := t.kinds.find(rule.Type)
		if err := rule.CheckScope(r); err != nil {
			return nil, err
		}
		found := pick(t.related, r, func(o *object) bool {
			return rule.Matches(o.Key(), o.Labels, t.labelsOf(o.Namespace))
		})
		i := slices.IndexFunc(related, func(g reconcile.Objects) bool { return g.Resource == r })
		if i < 0 {
			related = append(related, reconcile.Objects{Resource: r, Items: found})
			continue
		}
		for _, o := range found {
			if !slices.Contains(related[i].Items, o) {
				related[i].Items = append(related[i].Items, o)
			}
		}
	}
	return t.Offline.Request(hook, children, related)
}

func pick(from []*object, r kube.Resource, ok func(*object) bool) (out []*reconcile.Object) {
	for _, o := range from {
		if o.is(r) && ok(o) {
			out = append(out, o.Object)
		}
	}
	return out
}

// labelsOf returns the labels of a namespace among the related objects.
func (t *Trial) labelsOf(namespace string) kube.Labels {
	for _, o := range t.related {
		if o.Kind == "Namespace" && o.APIVersion == "v1" && o.Name == namespace {
			return o.Labels
		}
	}
	return nil
}

// Check checks an answer of sync or finalize. The children of the answer show the kinds missing in the files.
func (t *Trial) Check(hook wire.Hook, body []byte) (*wire.Answer, []apply.Child, error) {
	type head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	var heads struct {
		Children    []head `json:"children"`
		Attachments []head `json:"attachments"`
	}
	if err := kube.Unmarshal(body, &heads); err == nil { // else the check names the fault
		for _, h := range slices.Concat(heads.Children, heads.Attachments) {
			t.kinds.learn(h.APIVersion, h.Kind)
		}
	}
	t.resolve()
	return t.Offline.Check(hook, body)
}
