package controller

import (
	"context"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// namespace is what is read of a namespace: only its name.
type namespace struct {
	kube.Meta `json:"metadata"`
}

var namespaceResource = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// SelectRights are what SelectNamespaces needs.
var SelectRights = []kube.Right{{Resource: namespaceResource, Verbs: []string{"list", "watch"},
	Why: "which namespaces --watch-namespace-selector selects"}}

// SelectNamespaces returns a controller that has the other controllers of s, which have to be made with the same
// Mirrors, work in the namespaces that s.NamespaceSelector selects now. It works on standbys, too, so that their
// mirrors are warm. A namespace that is no longer selected is left as it is.
func SelectNamespaces(s Setup) *Controller {
	all := cache.New[*namespace](cache.Options{Resource: namespaceResource, LabelSelector: s.NamespaceSelector,
		Client: s.Client.Limit(SelectRights), WatchIdleTimeout: s.WatchIdleTimeout, QuietParking: true, Log: s.Log})
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
			c.log.Info("selected namespaces", "selector", s.NamespaceSelector, "namespaces", few(names))
		}
		return Done, nil
	}, Options{Workers: 1, Log: s.Log}, Once(kube.Key{}), Watches(all, func(*namespace) []kube.Key {
		return []kube.Key{{}} // all of them together
	}))
	return c
}
