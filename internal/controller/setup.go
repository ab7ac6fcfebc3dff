package controller

import (
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cache"
	"skiff/internal/kube"
)

// Setup is what all operators of a process are told in the same words. Zero values mean the defaults of the packages that they
// are for.
type Setup struct {
	Client           *kube.Client
	Namespaces       []string // to work in; empty: all
	Workers          int
	WatchIdleTimeout time.Duration
	InitialLists     *cache.Limiter // shared by all mirrors
	Log              logr.Logger
}

// Mirror returns the options of a mirror of the objects of a resource; of those that a label selector selects, if it is not "".
func (s Setup) Mirror(r kube.Resource, labels string) cache.Options {
	return cache.Options{Resource: r, Namespaces: s.Namespaces, LabelSelector: labels, Client: s.Client,
		WatchIdleTimeout: s.WatchIdleTimeout, InitialLists: s.InitialLists, Log: s.Log}
}

// New returns a controller of an operator.
func (s Setup) New(name string, f Func, sources ...Source) *Controller {
	return New(name, f, Options{Workers: s.Workers, Log: s.Log}, sources...)
}
