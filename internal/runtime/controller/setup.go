package controller

import (
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/podpolicy"
)

// Setup is what all operators of a process are told in the same words. Zero values mean the defaults of the
// packages that they are for.
type Setup struct {
	Client     *kube.Client
	Namespaces []string // to work in; empty: all
	// NamespaceSelector selects the namespaces to work in by their labels, instead: see SelectNamespaces.
	NamespaceSelector string
	Workers           int
	WatchIdleTimeout  time.Duration
	Elected           bool           // the controllers work only while they lead (Controller.Lead)
	MirrorBytes       int64          // memory that one mirror may take; see cache.Options.MaxBytes
	ObjectBytes       int64          // memory that one object may take; see cache.Options.MaxObjectBytes
	Mirrors           *cache.Mirrors // shared by all controllers; nil: each has its own
	InFlight          *InFlight      // the same; nil: the memory of runs has no bound
	// MinDebounce and MinCooldown are the floors of those of a RestartTrigger; 0: none.
	MinDebounce, MinCooldown time.Duration
	// TemplatePolicy is what the pods that operators declare have to keep to; the zero value is baseline.
	TemplatePolicy podpolicy.Policy
	Log            logr.Logger
}

// Mirror returns the mirror of the objects of a resource in the namespaces of s; of those that a label selector
// selects, if it is not "". Operators that ask for the same objects in the same form share it.
func Mirror[T kube.Object](s Setup, r kube.Resource, labels string) *cache.Store[T] {
	return cache.Shared[T](s.Mirrors, s.mirror(r, labels))
}

// CustomResources returns the mirror of the objects that a controller works for. Two controllers of one resource share
// it only if both ask for it here.
func CustomResources[T kube.Object](s Setup, r kube.Resource) *cache.Store[T] {
	o := s.mirror(r, "")
	o.Owners = true
	return cache.Shared[T](s.Mirrors, o)
}

// UntypedMirror is Mirror for a kind that is known only at run time. fields are the paths of what is kept of an object
// beside its metadata, such as "spec.replicas"; without any, all is. The error is a mistake in fields.
func UntypedMirror(s Setup, r kube.Resource, labels string, fields []string) (*cache.Store[*cache.Untyped], error) {
	return s.Mirrors.Untyped(s.mirror(r, labels), fields)
}

func (s Setup) mirror(r kube.Resource, labels string) cache.Options {
	return cache.Options{Resource: r, Namespaces: s.Namespaces, Selected: s.NamespaceSelector != "",
		LabelSelector: labels, Client: s.Client, WatchIdleTimeout: s.WatchIdleTimeout, MaxBytes: s.MirrorBytes,
		MaxObjectBytes: s.ObjectBytes, QuietParking: true, Log: s.Log}
}

// New returns a controller of an operator.
func (s Setup) New(name string, f Func, sources ...Source) *Controller {
	return New(name, f, Options{Workers: s.Workers, Elected: s.Elected, InFlight: s.InFlight, Log: s.Log}, sources...)
}
