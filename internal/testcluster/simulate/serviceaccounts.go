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
// controllers serviceaccount and root-ca-certificate-publisher do. A key is a namespace.
type serviceAccounts struct {
	controllerOf[*anyObject] // namespaces
	accounts                 *cache.Store[*anyObject]
	configMaps               *cache.Store[*configMap]
}

func newServiceAccounts(s *shared) runner {
	named := func(r kube.Resource, name string) cache.Options {
		m := s.all(r)
		m.FieldSelector = "metadata.name=" + name
		return m
	}
	c := &serviceAccounts{newController[*anyObject](s, namespaceResource, ""),
		cache.New[*anyObject](named(serviceAccountResource, defaultAccount)),
		cache.New[*configMap](named(configMapResource, rootCA))}
	return c.forEach("serviceaccounts", c.sync,
		controller.Watches(c.accounts, func(a *anyObject) []kube.Key { return []kube.Key{{Name: a.Namespace}} }),
		controller.Watches(c.configMaps, func(m *configMap) []kube.Key { return []kube.Key{{Name: m.Namespace}} }))
}

func (c *serviceAccounts) sync(ctx context.Context, ns *anyObject) (time.Duration, error) {
	if ns.Deleting() {
		return 0, nil
	}
	_, ok, err := c.accounts.Get(kube.Key{Namespace: ns.Name, Name: defaultAccount})
	if !ok && err == nil {
		err = c.create(ctx, serviceAccountResource, ns.Name, object{"metadata": object{"name": defaultAccount}})
	}
	err = errors.Join(err, c.publishCA(ctx, ns.Name))
	if kube.IsForbidden(err) { // the namespace is being deleted, which the mirror does not show yet
		return mirrorLag, nil
	}
	return 0, err
}

func (c *serviceAccounts) publishCA(ctx context.Context, namespace string) error {
	k := kube.Key{Namespace: namespace, Name: rootCA}
	m, ok, err := c.configMaps.Get(k)
	data := object{rootCAKey: c.RootCA}
	switch {
	case err != nil:
		return err
	case !ok:
		return c.create(ctx, configMapResource, namespace, object{"data": data, "metadata": object{"name": rootCA,
			"annotations": object{"kubernetes.io/description": rootCADescription}}})
	case m.Data[rootCAKey] == c.RootCA:
		return nil
	}
	return c.change(ctx, configMapResource, m, false, "", object{"data": data})
}
