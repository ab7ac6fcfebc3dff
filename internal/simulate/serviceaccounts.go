package simulate

import (
	"context"
	"errors"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/kube"
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
	client     *kube.Client
	ca         string // PEM
	namespaces *cache.Store[*object]
	accounts   *cache.Store[*object]
	configMaps *cache.Store[*configMap]
}

func newServiceAccounts(c *kube.Client, o Options) *controller.Controller {
	named := func(r kube.Resource, name string) cache.Options {
		m := o.mirror(c, r)
		m.FieldSelector = "metadata.name=" + name
		return m
	}
	s := &serviceAccounts{client: c, ca: o.RootCA,
		namespaces: cache.New[*object](o.mirror(c, namespaceResource)),
		accounts:   cache.New[*object](named(serviceAccountResource, defaultAccount)),
		configMaps: cache.New[*configMap](named(configMapResource, rootCA)),
	}
	return controller.New("simulate-serviceaccounts", retryStale(s.reconcile), o.controller(),
		controller.For(s.namespaces),
		controller.Watches(s.accounts, func(a *object) []kube.Key { return []kube.Key{{Name: a.Namespace}} }),
		controller.Watches(s.configMaps, func(m *configMap) []kube.Key { return []kube.Key{{Name: m.Namespace}} }))
}

func (s *serviceAccounts) reconcile(ctx context.Context, k kube.Key) (controller.Outcome, error) {
	ns, ok, err := s.namespaces.Get(k)
	if err != nil || !ok || ns.Deleting() {
		return controller.Done, err
	}
	err = errors.Join(s.createAccount(ctx, k.Name), s.publishCA(ctx, k.Name))
	if kube.IsForbidden(err) { // the namespace is being deleted; its mirror does not show that yet
		return controller.After(mirrorLag), nil
	}
	return controller.Done, err
}

func (s *serviceAccounts) createAccount(ctx context.Context, namespace string) error {
	_, ok, err := s.accounts.Get(kube.Key{Namespace: namespace, Name: defaultAccount})
	if ok || err != nil {
		return err
	}
	return create(ctx, s.client, serviceAccountResource, namespace, map[string]any{
		"metadata": map[string]any{"name": defaultAccount}})
}

func (s *serviceAccounts) publishCA(ctx context.Context, namespace string) error {
	k := kube.Key{Namespace: namespace, Name: rootCA}
	m, ok, err := s.configMaps.Get(k)
	data := map[string]any{rootCAKey: s.ca}
	switch {
	case err != nil:
		return err
	case !ok:
		return create(ctx, s.client, configMapResource, namespace, map[string]any{"data": data,
			"metadata": map[string]any{"name": rootCA,
				"annotations": map[string]any{"kubernetes.io/description": rootCADescription}}})
	case m.Data[rootCAKey] == s.ca:
		return nil
	}
	return s.client.Patch(ctx, configMapResource, k, kube.MergePatch, map[string]any{"data": data}, nil,
		kube.WriteOptions{FieldManager: manager})
}
