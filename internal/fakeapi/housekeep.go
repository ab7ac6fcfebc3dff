package fakeapi

import (
	"time"

	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/patch"
)

// seed creates the objects of a new cluster.
func (s *Server) seed() {
	s.store.Update(func(tx *store.Tx) error {
		for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
			tx.Put("namespaces", store.Key{Name: name}, map[string]any{
				"metadata": map[string]any{"name": name, "uid": newUID(), "creationTimestamp": now(),
					"labels": map[string]any{"kubernetes.io/metadata.name": name}},
				"spec":   map[string]any{"finalizers": []any{"kubernetes"}},
				"status": map[string]any{"phase": "Active"}}, nil)
		}
		tx.Put("services", apiService, kubernetesService(), nil)
		if s.opts.RBAC {
			s.seedRoles(tx)
		}
		return nil
	})
}

// apiService is the Service of the API server itself.
var apiService = store.Key{Namespace: "default", Name: "kubernetes"}

// serviceCheck is how often a real server looks whether its Service exists.
const serviceCheck = 10 * time.Second

// restoreService creates the API server's Service again when it has been missing for serviceCheck, and returns how
// long to wait for that.
func (s *Server) restoreService() (next time.Duration) {
	s.store.Update(func(tx *store.Tx) error {
		if tx.Get("services", apiService) != nil {
			s.serviceMissing = time.Time{}
			return nil
		}
		if s.serviceMissing.IsZero() {
			s.serviceMissing = time.Now()
		}
		if next = serviceCheck - time.Since(s.serviceMissing); next <= 0 {
			next, s.serviceMissing = 0, time.Time{}
			tx.Put("services", apiService, kubernetesService(), nil)
		}
		return nil
	})
	return next
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// apiServiceFields are the fields of the API server's Service that kube-apiserver owns.
const apiServiceFields = `{"f:metadata":{"f:labels":{".":{},"f:component":{},"f:provider":{}}},` +
	`"f:spec":{"f:clusterIP":{},"f:internalTrafficPolicy":{},"f:ipFamilyPolicy":{},` +
	`"f:ports":{".":{},"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{},` +
	`"f:targetPort":{}}},"f:sessionAffinity":{},"f:type":{}}}`

func kubernetesService() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": "kubernetes", "namespace": "default", "uid": newUID(),
			"creationTimestamp": now(),
			"labels":            map[string]any{"component": "apiserver", "provider": "kubernetes"},
			"managedFields": []any{map[string]any{"manager": "kube-apiserver", "operation": "Update",
				"apiVersion": "v1", "time": now(), "fieldsType": "FieldsV1",
				"fieldsV1": patch.NewText(apiServiceFields)}}},
		"spec": map[string]any{"clusterIP": "10.96.0.1", "clusterIPs": []any{"10.96.0.1"},
			"internalTrafficPolicy": "Cluster",
			"ipFamilies":            []any{"IPv4"}, "ipFamilyPolicy": "SingleStack",
			"sessionAffinity": "None", "type": "ClusterIP",
			"ports": []any{map[string]any{"name": "https", "port": int64(443), "protocol": "TCP",
				"targetPort": int64(6443)}}},
		"status": map[string]any{"loadBalancer": map[string]any{}}}
}

// wakeHousekeeper wakes the housekeeper after a write: any deletion may have removed the last object of a namespace
// that is being deleted.
func (s *Server) wakeHousekeeper() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake or about to be
	}
}

// housekeep runs the controllers that belong to the API server itself, until Close.
func (s *Server) housekeep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		next := s.serveCRDs()
		if !s.opts.KeepNamespaces {
			s.emptyNamespaces()
		}
		if s.opts.RBAC {
			s.aggregateRoles()
		}
		next = sooner(next, s.expireEvents())
		next = sooner(next, s.restoreService())
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// sooner returns the shorter of two waits; 0 means no wait.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// emptyNamespaces deletes the content of namespaces that are being deleted, and then the namespaces.
func (s *Server) emptyNamespaces() {
	served, _ := s.registry.all()
	s.store.Update(func(tx *store.Tx) error {
		for _, ns := range tx.List("namespaces", "") {
			if !ns.Deleting {
				continue
			}
			left := 0
			for _, k := range served {
				if !k.ClusterScoped && (k.Table == "" || k.Group == "") { // each table once
					left += s.empty(tx, k, ns.Name)
				}
			}
			if left > 0 || len(obj.Slice(ns.Value(), "spec", "finalizers")) == 0 {
				continue
			}
			next := obj.Clone(ns.Value())
			obj.Remove(next, "spec", "finalizers")
			if len(obj.Slice(next, "metadata", "finalizers")) == 0 {
				tx.Delete("namespaces", ns.Key, next)
			} else {
				tx.Put("namespaces", ns.Key, next, ns.Shape)
			}
		}
		return nil
	})
}

// empty deletes all objects of a kind in a namespace ("" = all) and returns how many remain because of finalizers or a
// grace period.
func (s *Server) empty(tx *store.Tx, k *kinds.Kind, namespace string) int {
	left := 0
	for _, o := range tx.List(k.TableName(), namespace) {
		if _, gone, err := s.remove(tx, k, o, deleteOptions{}); err != nil || !gone {
			left++
		}
	}
	return left
}

// expireEvents deletes Events past their TTL and returns the time until the next one expires.
func (s *Server) expireEvents() (next time.Duration) {
	s.store.Update(func(tx *store.Tx) error {
		for _, e := range tx.List("events", "") {
			created, err := time.Parse(time.RFC3339, e.Created)
			if err != nil {
				continue // impossible: the server wrote it
			}
			if left := s.opts.EventTTL - time.Since(created); left > 0 {
				next = sooner(next, left)
			} else {
				tx.Delete("events", e.Key, nil)
			}
		}
		return nil
	})
	return next
}
