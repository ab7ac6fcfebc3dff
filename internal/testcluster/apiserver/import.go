package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/ssa"
	"skiff/internal/testcluster/apiserver/store"
)

// Import stores an object of another cluster as it is, with uid, managedFields, owner references and status. It is no
// create: no defaults are set, nothing is allocated and no webhook is asked; a namespace that is missing is made. The
// definition of a custom resource comes before it. The object may come from a stranger: its types and its values are
// checked as those of an update are, and what would have this server call others is refused or left out.
func (s *Server) Import(o map[string]any) error {
	if err := s.importOne(o); err != nil {
		name := kube.Key{Namespace: obj.String(o, "metadata", "namespace"), Name: obj.String(o, "metadata", "name")}
		return fmt.Errorf("import %s %s: %w", kube.Text(obj.String(o, "kind")), kube.Text(name.String()), err)
	}
	s.wakeHousekeeper()
	return nil
}

func (s *Server) importOne(o map[string]any) error {
	group, version, grouped := strings.Cut(obj.String(o, "apiVersion"), "/")
	if !grouped {
		group, version = "", group
	}
	k := s.registry.ofKind(group, version, obj.String(o, "kind"))
	switch {
	case k == nil:
		return fmt.Errorf("the server has no such kind in %q", obj.String(o, "apiVersion"))
	case group == registration || k.Refused != "": // which has a server send requests to addresses in its objects
		return errors.New("objects of this kind are not imported")
	}
	if err := checkFieldTypes(k, o); err != nil {
		return err
	}
	o = k.ToStore(forms.Untyped(obj.Clone(o)))
	meta := obj.Map(o, "metadata")
	prune(k, o)
	delete(meta, "selfLink")
	meta["uid"] = cmp.Or(obj.String(meta, "uid"), obj.NewUID())
	meta["creationTimestamp"] = cmp.Or(obj.String(meta, "creationTimestamp"), now())
	if k.Stored != nil {
		k.Stored.Drop(o)
		k.Stored.Fill(o)
	}
	if k.Resource == kinds.CRDs {
		obj.Remove(o, "spec", "conversion") // a webhook of the other cluster
		complete(k, o, o)
	}
	key := store.Key{Namespace: obj.String(meta, "namespace"), Name: obj.String(meta, "name")}
	if err := checkImported(k, o, key); err != nil {
		return err
	}
	defer func() {
		if k.Resource == kinds.CRDs {
			s.serveCRDs() // now: the objects that follow are of this kind
		}
	}()
	return s.store.Update(func(tx *store.Tx) error {
		if key.Namespace != "" && tx.Get("namespaces", store.Key{Name: key.Namespace}) == nil {
			s.putNamespace(tx, key.Namespace)
		}
		tx.Put(k.TableName(), key, o, k.Shape)
		return nil
	})
}

// checkImported refuses what no server would have stored.
func checkImported(k *kinds.Kind, o map[string]any, key store.Key) error {
	switch {
	case k.ClusterScoped && key.Namespace != "":
		return errors.New("metadata.namespace: the kind has none")
	case !k.ClusterScoped && obj.Label(key.Namespace) != "":
		return fmt.Errorf("metadata.namespace %q: %s", key.Namespace, obj.Label(key.Namespace))
	}
	if err := ssa.CheckManagers(o); err != nil {
		return fmt.Errorf("metadata.managedFields: %w", err)
	}
	causes, was := metadataCauses(k, o, true), o
	if k.Resource == kinds.CRDs {
		was = nil // as strictly as a new one: other objects are read by it
	}
	if k.Validate != nil {
		causes = append(causes, k.Validate(o, was)...)
	}
	return httpd.Invalid(httpd.AboutKind(k.Resource, key.Name), causes...)
}

// putNamespace makes a namespace of which only the name is known.
func (s *Server) putNamespace(tx *store.Tx, name string) {
	k := s.registry.find("", "v1", "namespaces")
	o := map[string]any{"metadata": map[string]any{"name": name, "uid": obj.NewUID(), "creationTimestamp": now(),
		"labels": map[string]any{"kubernetes.io/metadata.name": name}},
		"spec": map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"}}
	tx.Put(k.TableName(), store.Key{Name: name}, o, k.Shape)
}
