package simulate

import (
	"context"
	"errors"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// Names in each namespace.
const (
	defaultAccount = "default"
	rootCA         = "kube-root-ca.crt"
	rootCAKey      = "ca.crt"
	// rootCADescription is the annotation of the real controller's ConfigMap.
	rootCADescription = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal " +
		"endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across " +
		"distributions of Kubernetes clusters."
)

// configMap is the part of a ConfigMap that serviceAccounts reads.
type configMap struct {
	kube.Meta `json:"metadata"`
	Data      map[string]string `json:"data"`
}

// serviceAccounts gives each namespace the ServiceAccount "default" and the ConfigMap kube-root-ca.crt, as the
// controllers serviceaccount and root-ca-certificate-publisher do. One key is one namespace.
type serviceAccounts struct {
	controllerOf[*object] // namespaces
	accounts              *cache.Store[*object]
	configMaps            *cache.Store[*configMap]
}

func newServiceAccounts(w *world) runner {
	named := func(r kube.Resource, name string) cache.Options {
		m := w.all(r)
		m.FieldSelector = "metadata.name=" + name
		return m
	}
	s := &serviceAccounts{newController[*object](w, namespaceResource, ""),
		cache.New[*object](named(serviceAccountResource, defaultAccount)),
		cache.New[*configMap](named(configMapResource, rootCA))}
	return s.forEach("serviceaccounts", s.sync,
		controller.Watches(s.accounts, func(a *object) []kube.Key { return []kube.Key{{Name: a.Namespace}} }),
		controller.Watches(s.configMaps, func(m *configMap) []kube.Key { return []kube.Key{{Name: m.Namespace}} }))
}

func (s *serviceAccounts) sync(ctx context.Context, ns *object) (time.Duration, error) {
	if ns.Deleting() {
		return 0, nil
	}
	_, ok, err := s.accounts.Get(kube.Key{Namespace: ns.Name, Name: defaultAccount})
	if !ok && err == nil {
		err = s.create(ctx, serviceAccountResource, ns.Name, map[string]any{
			"metadata": map[string]any{"name": defaultAccount}})
	}
	err = errors.Join(err, s.publishCA(ctx, ns.Name))
	if kube.IsForbidden(err) { // the namespace is being deleted; its mirror does not show that yet
		return mirrorLag, nil
	}
	return 0, err
}

func (s *serviceAccounts) publishCA(ctx context.Context, namespace string) error {
	k := kube.Key{Namespace: namespace, Name: rootCA}
	m, ok, err := s.configMaps.Get(k)
	data := map[string]any{rootCAKey: s.RootCA}
	switch {
	case err != nil:
		return err
	case !ok:
		return s.create(ctx, configMapResource, namespace, map[string]any{"data": data,
			"metadata": map[string]any{"name": rootCA,
				"annotations": map[string]any{"kubernetes.io/description": rootCADescription}}})
	case m.Data[rootCAKey] == s.RootCA:
		return nil
	}
	return s.change(ctx, configMapResource, m, false, "", map[string]any{"data": data})
}
