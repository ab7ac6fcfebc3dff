package wire

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Child is a child declared by an answer.
type Child struct {
	Kind   int // in Options.Kinds
	Key    kube.Key
	Labels kube.Labels
	// Body is the declaration, in package patch's form of JSON, with the namespace filled in. Body has no status, no
	// metadata owned by the server, and no owner reference to the parent.
	Body map[string]any
	// Path is where the child is in the answer: "children[3]".
	Path string
}

var (
	// serverOwned are fields of metadata written by the server alone. Hooks copy observed objects.
	serverOwned = []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields",
		"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}
	// engineOwned are annotations written on children by skiff and metacontroller for their own use.
	engineOwned = []string{apply.HashAnnotation, LastApplied}
)

// LastApplied is the annotation in which metacontroller keeps the last written declaration of a child.
const LastApplied = "metacontroller.k8s.io/last-applied-configuration"

// children checks the list of children. list is its name.
func (o *Options) children(items []any, list string) ([]Child, error) {
	if len(items) > MaxChildren {
		return nil, fmt.Errorf("%s: has %d items, at most %d are allowed", list, len(items), MaxChildren)
	}
	type id struct {
		kind int
		key  kube.Key
	}
	seen := make(map[id]int, len(items))
	out := make([]Child, 0, len(items))
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", list, i)
		body, ok := item.(map[string]any)
		if !ok {
			return nil, typeError(path, "an object", item)
		}
		c := Child{Body: body, Path: path}
		if err := o.check(&c); err != nil {
			return nil, err
		}
		if first, twice := seen[id{c.Kind, c.Key}]; twice {
			return nil, fmt.Errorf("%s.metadata.name: %s %s is declared twice, first by %s[%d]", path,
				o.Kinds[c.Kind].Kind, quote(c.Key.String()), list, first)
		}
		seen[id{c.Kind, c.Key}] = i
		out = append(out, c)
	}
	return out, nil
}

// check checks and completes a child, and drops fields which are not the hook's to declare.
func (o *Options) check(c *Child) error {
	dropNulls(c.Body)
	kind, err := o.kindOf(c)
	if err != nil {
		return err
	}
	c.Kind = kind
	metaPath := c.Path + ".metadata"
	meta, err := objectOf(c.Body, c.Path, "metadata")
	if err != nil {
		return err
	}
	if c.Key.Name, err = textOf(meta, metaPath, "name"); err != nil {
		return err
	}
	if _, ok := meta["generateName"]; ok {
		return fmt.Errorf("%s.generateName: is not allowed: a child has a name, by which it is found again", metaPath)
	}
	if c.Key.Name == "" {
		return missing(metaPath + ".name")
	}
	if err := checkName(o.Kinds[kind], c.Key.Name, metaPath+".name"); err != nil {
		return err
	}
	if err := o.place(c, meta, metaPath); err != nil {
		return err
	}
	if err := o.owners(meta, metaPath); err != nil {
		return err
	}
	delete(c.Body, "status")
	for _, name := range serverOwned {
		delete(meta, name)
	}
	return c.tags(meta, metaPath)
}

// dropNulls takes the null members out of all objects of a value: null means absent everywhere. For null a server
// would store an empty text in a map of texts, and 0 as a limit.
func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil {
				delete(v, name)
				continue
			}
			dropNulls(member)
		}
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	}
}

// kindOf finds the declared kind of a child.
func (o *Options) kindOf(c *Child) (int, error) {
	apiVersion, err := textOf(c.Body, c.Path, "apiVersion")
	if err != nil {
		return 0, err
	}
	kind, err := textOf(c.Body, c.Path, "kind")
	switch {
	case err != nil:
		return 0, err
	case apiVersion == "":
		return 0, missing(c.Path + ".apiVersion")
	case kind == "":
		return 0, missing(c.Path + ".kind")
	}
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	i := slices.IndexFunc(o.Kinds, func(r kube.Resource) bool { return r.Kind == kind && r.Group == group })
	if i < 0 {
		return 0, fmt.Errorf("%s.kind: %s of %s is not among the kinds that the controller declares: add to %s: "+
			"- {apiVersion: %s, resource: %s, updateStrategy: {method: InPlace}}", c.Path, quote(kind),
			quote(apiVersion), o.rules(), quote(apiVersion), quote(PluralOf(kind)))
	}
	if o.Kinds[i].Version != version {
		return 0, fmt.Errorf("%s.apiVersion: is %s, but %s declares %s as %s", c.Path, quote(apiVersion), o.rules(),
			o.Kinds[i], o.Kinds[i].APIVersion())
	}
	return i, nil
}

// PluralOf returns the most likely name of a kind in URLs.
func PluralOf(kind string) string {
	s := strings.ToLower(kind)
	switch {
	case s == "endpoints":
		return s
	case strings.HasSuffix(s, "s"), strings.HasSuffix(s, "x"), strings.HasSuffix(s, "z"), strings.HasSuffix(s, "ch"),
		strings.HasSuffix(s, "sh"):
		return s + "es"
	case len(s) > 1 && strings.HasSuffix(s, "y") && !strings.ContainsAny(s[len(s)-2:len(s)-1], "aeiou"):
		return s[:len(s)-1] + "ies"
	}
	return s + "s"
}

// rules returns the name of the field in which a controller declares kinds of children.
func (o *Options) rules() string {
	if o.Composite {
		return "spec.childResources"
	}
	return "spec.attachments"
}

// place checks and completes the namespace of a child.
func (o *Options) place(c *Child, meta map[string]any, path string) error {
	namespace, err := textOf(meta, path, "namespace")
	if err != nil {
		return err
	}
	r := o.Kinds[c.Kind]
	switch {
	case r.ClusterScoped && o.Parent.Namespace != "":
		return fmt.Errorf("%s.kind: %s is cluster-scoped and its parent is in namespace %s: the garbage collector "+
			"would delete it", c.Path, r.Kind, o.Parent.Namespace)
	case r.ClusterScoped && namespace != "":
		return fmt.Errorf("%s.namespace: %s is cluster-scoped", path, r.Kind)
	case r.ClusterScoped:
		delete(meta, "namespace")
		return nil
	case namespace == "" && o.Parent.Namespace == "":
		return fmt.Errorf("%s.namespace: %w, and the parent is in none", path, errMissing)
	case namespace == "":
		namespace = o.Parent.Namespace
		meta["namespace"] = namespace
	case o.Parent.Namespace != "" && namespace != o.Parent.Namespace:
		return fmt.Errorf("%s.namespace: is %s, but the parent is in %s: the garbage collector would delete the child",
			path, quote(namespace), o.Parent.Namespace)
	}
	c.Key.Namespace = namespace
	return nil
}

// owners drops the references to the parent, and refuses another controller's.
func (o *Options) owners(meta map[string]any, path string) error {
	references, err := listOf(meta, path, "ownerReferences")
	if err != nil {
		return err
	}
	kept := make([]any, 0, len(references))
	for i, v := range references {
		at := fmt.Sprintf("%s.ownerReferences[%d]", path, i)
		reference, ok := v.(map[string]any)
		switch {
		case !ok:
			return typeError(at, "an object", v)
		case reference["uid"] == o.ParentUID:
			continue
		case reference["controller"] == true:
			return fmt.Errorf("%s.controller: must not be true: the controller of the child is its parent", at)
		}
		kept = append(kept, reference)
	}
	if len(kept) == 0 {
		delete(meta, "ownerReferences")
		return nil
	}
	meta["ownerReferences"] = kept
	return nil
}

// tags reads the labels, and drops annotations which are not the hook's.
func (c *Child) tags(meta map[string]any, path string) error {
	all, err := objectOf(meta, path, "labels")
	if err != nil {
		return err
	}
	for key, v := range all {
		s, ok := v.(string)
		if !ok {
			return typeError(patch.Join(path+".labels", kube.Printable(key, maxQuoted)), "a string", v)
		}
		c.Labels = append(c.Labels, kube.Label{Key: key, Value: s})
	}
	slices.SortFunc(c.Labels, func(a, b kube.Label) int { return strings.Compare(a.Key, b.Key) })
	annotations, err := objectOf(meta, path, "annotations")
	if err != nil {
		return err
	}
	for _, key := range engineOwned {
		delete(annotations, key)
	}
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
	return nil
}
