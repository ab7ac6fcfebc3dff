// Package spec is what a hook controller is made of: the CompositeControllers and DecoratorControllers of
// metacontroller (group metacontroller.k8s.io/v1alpha1), read from files or from a cluster, checked, and with all
// defaults filled in.
//
// Its job ends with a valid [Controller]. Whether its resources exist is the server's to say (package supervise), and
// what a hook does is its author's (package call). Pure functions on the caller's goroutine; it is on no event path.
package spec

import (
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// The group, version and kinds of hook controllers.
const (
	Group      = "metacontroller.k8s.io"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version

	// AllowDeletes is the annotation of a controller that acknowledges what a hook which has changed wants deleted.
	AllowDeletes = "skiff.dev/allow-deletes"
	// ReportSync is the annotation of a CompositeController, "true", whose parents always have the condition Synced.
	ReportSync = "skiff.dev/report-sync"

	Composite = "CompositeController"
	Decorator = "DecoratorController"
)

// Controller is one CompositeController or DecoratorController.
type Controller struct {
	Kind   string // Composite or Decorator
	Name   string
	Source string // FILE:LINE; "": a cluster
	UID    string // of the object in a cluster; "" from a file
	Labels kube.Labels

	// Object is the whole object as hooks get it: with the defaults filled in, and with "status":{}.
	Object kube.Raw

	Parents  []Parent // of a CompositeController exactly one; of a DecoratorController one or more
	Children []Child  // childResources, or attachments; no two of one group and resource

	// GenerateSelector has the children selected by the uid of their parent, instead of by its spec.selector.
	GenerateSelector bool
	// Resync is how often all parents are reconciled without a change; 0: never.
	Resync time.Duration
	// Paused holds all of the controller's writes, and no hook is called.
	Paused bool
	// ReportSync says that the annotation of this name is "true".
	ReportSync bool
	// AllowDeletes is the value of the annotation of this name; "": there is none.
	AllowDeletes string

	Sync      *Hook // never nil
	Finalize  *Hook // nil: parents get no finalizer
	Customize *Hook // nil: no related objects

	// Places are FILE:LINE of each webhook's url or service, by the name of the hook; nil: a cluster. Moving a line
	// makes no other controller.
	Places map[string]string `json:"-"`
}

// NamedHook is a hook, and which one it is: "sync", "finalize" or "customize".
type NamedHook struct {
	Name string
	*Hook
}

// Hooks are the hooks that c has, sync first.
func (c *Controller) Hooks() []NamedHook {
	all := []NamedHook{{"sync", c.Sync}, {"finalize", c.Finalize}, {"customize", c.Customize}}
	return slices.DeleteFunc(all, func(h NamedHook) bool { return h.Hook == nil })
}

// IsComposite says that c is a CompositeController.
func (c *Controller) IsComposite() bool { return c.Kind == Composite }

// Rivals returns the CompositeControllers among all with the same parent resource as c, except c, and except those
// that choose parents by label if c does, too. A CompositeController writes the whole status of a parent: two would
// replace each other's for ever.
func (c *Controller) Rivals(all []*Controller) []*Controller {
	var rivals []*Controller
	for _, o := range all {
		same := o.Kind == c.Kind && o.Name == c.Name
		if same || !c.IsComposite() || !o.IsComposite() || !c.Parents[0].same(o.Parents[0].Type) {
			continue
		}
		if len(c.Parents[0].Labels) == 0 || len(o.Parents[0].Labels) == 0 {
			rivals = append(rivals, o)
		}
	}
	return rivals
}

// Type is a resource as a rule names it: the lower-case plural, and the version to read and write. Only the server
// knows the kind, and whether the resource is namespaced.
type Type struct {
	APIVersion string `yaml:"apiVersion" need:"is missing" is:"version"` // "apps/v1", or "v1" for the core group
	Resource   string `yaml:"resource" need:"is missing" is:"plural"`    // "deployments"
}

// Group is that of APIVersion, "" for the core group.
func (t Type) Group() string {
	if group, _, ok := strings.Cut(t.APIVersion, "/"); ok {
		return group
	}
	return ""
}

// Version is that of APIVersion.
func (t Type) Version() string { return strings.TrimPrefix(t.APIVersion, t.Group()+"/") }

// GroupResource is the resource as rules of a Role and kubectl name it: "deployments.apps".
func (t Type) GroupResource() string {
	return kube.Resource{Group: t.Group(), Plural: t.Resource}.GroupResource()
}

// same says whether both are one resource, in any version.
func (t Type) same(o Type) bool { return t.Resource == o.Resource && t.Group() == o.Group() }

// Parent is a resource whose objects hooks are called for.
type Parent struct {
	Type
	Labels              labels.Requirements // of the parents; empty: all
	Annotations         labels.Requirements // of a DecoratorController's parents; empty: all
	IgnoreStatusChanges bool
	// FieldPaths are what a ControllerRevision holds of a parent; ["spec"] by default.
	FieldPaths []string
}

// Method says what happens to a child that differs from what is declared.
type Method string

// The methods of updateStrategy.
const (
	OnDelete        Method = "OnDelete"
	Recreate        Method = "Recreate"
	InPlace         Method = "InPlace"
	RollingRecreate Method = "RollingRecreate"
	RollingInPlace  Method = "RollingInPlace"
)

// Rolling says that children are changed one at a time.
func (m Method) Rolling() bool { return m == RollingRecreate || m == RollingInPlace }

// Child is a kind of children.
type Child struct {
	Type
	Method Method
	// Checks are the conditions that a child has to have before a roll goes on.
	Checks []StatusCheck
}

// StatusCheck is a condition that has to exist, with the given status and reason; "": any.
type StatusCheck struct {
	Type   string `yaml:"type" need:"is missing"`
	Status string `yaml:"status"`
	Reason string `yaml:"reason"`
}

// Hook is one hook of a controller. Exactly one of Webhook and Exec is not nil.
type Hook struct {
	Version int // of the request and the answer: 1 or 2
	Timeout time.Duration
	Strict  bool // refuses unknown and repeated fields in an answer
	Webhook *Webhook
	Exec    *Exec
}

// Webhook is an HTTP endpoint.
type Webhook struct {
	URL  string // complete, also where the spec names a Service
	ETag *ETag  // nil: off
	// Access is how to reach the endpoint; the zero value is without credentials. An entry of endpointConfigs that
	// fits has been filled in.
	Access Access
}

// ETag says how long answers are kept for If-None-Match.
type ETag struct {
	Timeout time.Duration // 0: none
}

// Access is how an endpoint is reached and convinced. At most one of Bearer and Basic is not nil.
type Access struct {
	CA        *Reference // nil with CAInline "": the system's roots
	CAInline  string     // PEM
	ClientTLS *Pair      // the secret's certificate and private key
	Bearer    *Reference
	Scheme    string // of the Authorization header with Bearer's value: "Bearer" unless the spec names another
	Basic     *Pair  // user name and password
}

// IsZero says whether nothing is set.
func (a Access) IsZero() bool { return a == Access{} }

// Reference is one key of a Secret, or of a ConfigMap.
type Reference struct {
	ConfigMap bool
	Namespace string `yaml:"namespace" need:"is missing" is:"namespace"`
	Name      string `yaml:"name" need:"is missing" is:"object"`
	Key       string `yaml:"key" need:"is missing" is:"data"`
}

// Object returns the Secret or ConfigMap that has the value.
func (r Reference) Object() (kube.Resource, kube.Key) {
	of := kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}
	if r.ConfigMap {
		of = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	}
	return of, kube.Key{Namespace: r.Namespace, Name: r.Name}
}

// Pair is two keys of one Secret.
type Pair struct {
	Namespace, Name string
	First, Second   string // tls.crt and tls.key; username and password
}

// Mode says how an exec hook gets its calls.
type Mode string

// The modes of an exec hook.
const (
	Oneshot Mode = "oneshot" // a process for each call
	Lines   Mode = "lines"   // a process for each worker, a line for each call
)

// Exec is a program on the machine where skiff runs.
type Exec struct {
	Command []string          `yaml:"command" need:"is missing" is:"argument"`
	Mode    Mode              `yaml:"mode" default:"oneshot" enum:"oneshot,lines"`
	Env     map[string]string `yaml:"env" keys:"variable" is:"argument"`
	// Dir is absolute; of a file's controller it is by default the directory of that file. "", from a cluster: that of
	// skiff. A path of Command[0] is absolute, too; a bare name is looked up in PATH.
	Dir string `yaml:"dir" empty:"is missing" is:"argument"`
}
