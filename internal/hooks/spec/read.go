package spec

import (
	"regexp"
	"strings"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// Bounds of a controller. Each resource costs a watch.
const (
	maxResources = 100
	maxItems     = 100 // of other lists: conditions, arguments, endpoints
	// maxFinalizerName is what the API allows behind the slash of a finalizer. The name of a controller is part of it.
	maxFinalizerName = 63
)

var (
	// dnsLabel is what can be a part of a host name: the name of a namespace or a Service, a plural, a version.
	dnsLabel = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	// namespace may begin with a digit.
	namespace = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	// dataKey is a key of a Secret or a ConfigMap.
	dataKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)
)

// origin is where an object comes from.
type origin struct {
	file string // "": a cluster
	dir  string // of the file
}

// controller reads an object whose kind is Composite or Decorator. What is wrong with it is added to v.found; then
// the result is of no use.
func (o origin) controller(v value) *Controller {
	v.only("apiVersion", "kind", "metadata", "spec", "status")
	c := &Controller{Kind: v.field("kind").string()}
	if at := v.field("apiVersion"); at.string() != APIVersion {
		at.wrong("must be %s", APIVersion)
	}
	c.metadata(v.field("metadata").required())
	spec := v.field("spec").required()
	if !spec.is(object) {
		return c
	}
	common := []string{"hooks", "resyncPeriodSeconds", "endpointConfigs"}
	if c.IsComposite() {
		spec.only(append(common, "parentResource", "childResources", "generateSelector")...)
		c.composite(spec)
	} else {
		spec.only(append(common, "resources", "attachments")...)
		c.decorator(spec)
	}
	if at := spec.field("resyncPeriodSeconds"); at.has() {
		c.Resync = max(time.Second, time.Duration(at.int(-1<<31, 1<<31-1))*time.Second) // what is less counts as 1 s
	}
	o.hooks(c, spec)
	if prefix := strings.ToLower(c.Kind) + "-"; c.Finalize != nil && len(prefix+c.Name) > maxFinalizerName {
		v.field("metadata").field("name").wrong("must have at most %d characters: with a finalize hook it is part of "+
			"the name of a finalizer", maxFinalizerName-len(prefix))
	}
	v.set("status", &node{kind: object})
	c.Object = v.json(nil)
	return c
}

func (c *Controller) metadata(meta value) {
	c.Name = meta.field("name").required().matching(kube.ValidName, "the name of an object (small letters, digits, "+
		"'-' and '.')")
	c.UID = meta.field("uid").string()
	c.Labels = labelsOf(meta.field("labels").table())
	annotations := meta.field("annotations").table()
	c.Paused = annotations[conditions.PausedAnnotation] == "true"
	c.AllowDeletes = annotations[AllowDeletes]
	c.ReportSync = annotations[ReportSync] == "true"
	if meta.kind == object {
		meta.set("managedFields", &node{}) // kubectl does not show them, and they may be larger than all else
	}
}

func (c *Controller) composite(spec value) {
	at := spec.field("parentResource").required()
	if at.only("apiVersion", "resource", "revisionHistory", "labelSelector", "ignoreStatusChanges") {
		p := Parent{Type: at.resource(), Labels: at.field("labelSelector").labelSelector(),
			IgnoreStatusChanges: at.field("ignoreStatusChanges").bool(), FieldPaths: []string{"spec"}}
		history := at.field("revisionHistory")
		history.only("fieldPaths")
		if paths := history.field("fieldPaths").fieldPaths(); len(paths) > 0 {
			p.FieldPaths = paths
		}
		c.Parents = append(c.Parents, p)
	}
	c.GenerateSelector = spec.field("generateSelector").bool()
	c.children(spec.field("childResources"), "method", "statusChecks")
}

func (c *Controller) decorator(spec value) {
	at := spec.field("resources").required()
	if at.kind == list && len(at.values) == 0 {
		at.wrong("is empty: name at least one resource")
	}
	for rule := range at.items(maxResources) {
		if !rule.only("apiVersion", "resource", "labelSelector", "annotationSelector", "ignoreStatusChanges") {
			continue
		}
		p := Parent{Type: rule.resource(), Labels: rule.field("labelSelector").labelSelector(),
			Annotations:         rule.field("annotationSelector").annotationSelector(),
			IgnoreStatusChanges: rule.field("ignoreStatusChanges").bool()}
		for _, other := range c.Parents {
			if other.same(p.Type) {
				rule.wrong("names %s a second time: make one rule of them", p.GroupResource())
			}
		}
		c.Parents = append(c.Parents, p)
	}
	c.children(spec.field("attachments"), "method")
}

// children reads the rules of children.
func (c *Controller) children(rules value, strategyFields ...string) {
	for rule := range rules.items(maxResources) {
		if !rule.only("apiVersion", "resource", "updateStrategy") {
			continue
		}
		child := Child{Type: rule.resource()}
		strategy := rule.field("updateStrategy")
		strategy.only(strategyFields...)
		child.Method = Method(strategy.field("method").oneOf(string(OnDelete), string(Recreate), string(InPlace),
			string(RollingRecreate), string(RollingInPlace)))
		if !c.IsComposite() { // which has no revisions: there is nothing to roll
			child.Method = Method(strings.TrimPrefix(string(child.Method), "Rolling"))
		}
		checks := strategy.field("statusChecks")
		checks.only("conditions")
		for check := range checks.field("conditions").items(maxItems) {
			check.only("type", "status", "reason")
			child.Checks = append(child.Checks, StatusCheck{check.field("type").required().string(),
				check.field("status").string(), check.field("reason").string()})
		}
		c.child(rule, child)
	}
}

// child adds a rule. Of two for one resource the last one that has a method counts, as in metacontroller.
func (c *Controller) child(rule value, child Child) {
	for i, other := range c.Children {
		switch {
		case !other.same(child.Type):
		case other.APIVersion != child.APIVersion:
			rule.wrong("names %s in a second version: keep one of %s and %s", child.GroupResource(), other.APIVersion,
				child.APIVersion)
			return
		case child.Method != OnDelete:
			c.Children[i] = child
			return
		default:
			return
		}
	}
	c.Children = append(c.Children, child)
}

// resource reads what a rule names.
func (v value) resource() Type {
	isVersion := func(s string) bool {
		group, version, ok := strings.Cut(s, "/")
		if !ok {
			group, version = "core", s
		}
		return kube.ValidName(group) && dnsLabel.MatchString(version)
	}
	return Type{
		APIVersion: v.field("apiVersion").required().matching(isVersion, "GROUP/VERSION, or v1 for the core group"),
		Resource: v.field("resource").required().matching(dnsLabel.MatchString,
			"the plural of a resource, in small letters, as in `kubectl api-resources`"),
	}
}

// fieldPaths reads the paths of the fields that a ControllerRevision has.
func (v value) fieldPaths() (out []string) {
	for item := range v.items(maxItems) {
		path := item.required().matching(func(s string) bool {
			return !strings.ContainsAny(s, "[]") && !strings.Contains("."+s+".", "..")
		}, "a path such as spec.template")
		out = append(out, path)
	}
	return out
}

// labelSelector reads a selector of labels; a missing one selects all.
func (v value) labelSelector() labels.Requirements {
	if !v.only("matchLabels", "matchExpressions") {
		return nil
	}
	all := v.requirements("matchLabels")
	if err := all.Check(); err != nil {
		v.wrong("%v", err)
	}
	return all
}

// annotationSelector reads the same of annotations, whose values may be any text.
func (v value) annotationSelector() labels.Requirements {
	if !v.only("matchAnnotations", "matchExpressions") {
		return nil
	}
	all := v.requirements("matchAnnotations")
	keys := make(labels.Requirements, len(all))
	for i, r := range all {
		r.Values = make([]string, len(r.Values)) // the empty string is a valid value of a label
		keys[i] = r
	}
	if err := keys.Check(); err != nil {
		v.wrong("%v", err)
	}
	return all
}

func (v value) requirements(match string) labels.Requirements {
	s := labels.Selector{MatchLabels: labelsOf(v.field(match).table())}
	for item := range v.field("matchExpressions").items(maxItems) {
		item.only("key", "operator", "values")
		s.MatchExpressions = append(s.MatchExpressions, labels.Requirement{Key: item.field("key").required().string(),
			Operator: item.field("operator").required().string(), Values: item.field("values").strings()})
	}
	return s.Requirements()
}
