package controller

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/podpolicy"
)

// Setup is common to all operators of a process. A zero value means the default of the package that reads the field.
type Setup struct {
	Client     *kube.Client
	Namespaces []string // to work in; empty: all
	// NamespaceSelector selects the namespaces to work in by their labels, instead: see SelectNamespaces.
	NamespaceSelector string
	Workers           int
	WatchIdleTimeout  time.Duration
	Elected           bool           // the controllers work only while they lead (Controller.Lead)
	MirrorBytes       int64          // limit of memory for a mirror; see cache.Options.MaxBytes
	ObjectBytes       int64          // limit of memory for an object; see cache.Options.MaxObjectBytes
	Mirrors           *cache.Mirrors // shared by all controllers; nil: each has its own
	InFlight          *InFlight      // the same; nil: the memory of runs has no bound
	// TemplatePolicy is the policy for the pods that operators declare; the zero value is baseline.
	TemplatePolicy podpolicy.Policy
	History        *history.Log // of the process; nil: runs are not remembered
	Advice         Advice
	Log            logr.Logger
}

// Mirror returns the mirror of the objects of a resource in the namespaces of s, narrowed by a label selector unless
// labels is "". Operators that ask for the same objects in the same form share a mirror.
func Mirror[T kube.Object](s Setup, r kube.Resource, labels string) *cache.Store[T] {
	return cache.Shared[T](s.Mirrors, s.mirror(r, labels))
}

// MirrorOptions narrow a mirror.
type MirrorOptions struct {
	Name     string // the only object's, so that a Role may grant the rights for this name alone; "": all objects
	Optional bool   // the server need not serve the resource
}

// MirrorOf is as Mirror, narrowed by options.
func MirrorOf[T kube.Object](s Setup, r kube.Resource, of MirrorOptions) *cache.Store[T] {
	o := s.mirror(r, "")
	o.Optional = of.Optional
	if of.Name != "" {
		o.FieldSelector = "metadata.name=" + of.Name
	}
	return cache.Shared[T](s.Mirrors, o)
}

func (s Setup) mirror(r kube.Resource, labels string) cache.Options {
	return cache.Options{Resource: r, Namespaces: s.Namespaces, Selected: s.NamespaceSelector != "",
		LabelSelector: labels, Client: s.Client, WatchIdleTimeout: s.WatchIdleTimeout, MaxBytes: s.MirrorBytes,
		MaxObjectBytes: s.ObjectBytes, QuietParking: true, Advice: s.Advice.Advice, Log: s.Log}
}

// New returns a controller of an operator.
func (s Setup) New(name string, f Func, sources ...Source) *Controller {
	return New(name, f, Options{Workers: s.Workers, Elected: s.Elected, InFlight: s.InFlight, History: s.History,
		Advice: s.Advice, Log: s.Log}, sources...)
}

// namespace is a namespace of which only the name is read.
type namespace struct {
	kube.Meta `json:"metadata"`
}

var namespaceResource = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// SelectRights are what SelectNamespaces needs.
var SelectRights = []kube.Right{{Resource: namespaceResource, Verbs: []string{"list", "watch"},
	Why: "which namespaces a label selector selects"}}

// SelectNamespaces returns a controller that makes the other controllers of s, which must share the same Mirrors, work
// in the namespaces that s.NamespaceSelector selects now. Standbys run SelectNamespaces, too, so that their mirrors
// are warm. A namespace no longer selected is left unchanged.
func SelectNamespaces(s Setup) *Controller {
	all := cache.New[*namespace](cache.Options{Resource: namespaceResource, LabelSelector: s.NamespaceSelector,
		Client: s.Client.Limit(SelectRights), WatchIdleTimeout: s.WatchIdleTimeout, QuietParking: true,
		Advice: s.Advice.Advice, Log: s.Log})
	var c *Controller
	c = New("namespaces", func(context.Context, kube.Key) (Outcome, error) {
		selected, err := all.List("")
		if err != nil {
			return Done, err
		}
		var names []string
		for _, ns := range selected {
			names = append(names, ns.Name)
		}
		if s.Mirrors.Select(names) {
			c.log.Info("selected namespaces", "selector", s.NamespaceSelector, "namespaces", health.Few(names))
		}
		return Done, nil
	}, Options{Workers: 1, Advice: s.Advice, Log: s.Log}, Once(kube.Key{}), Watches(all, func(*namespace) []kube.Key {
		return []kube.Key{{}} // all of them together
	}))
	return c
}
