package fakeapi

import (
	"maps"
	"slices"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/patch"
)

// charge refuses a new object that a quota of its namespace has no room for, as the admission plugin ResourceQuota
// does. It returns the quotas with what they have left, to be stored with the object. Quotas whose status nobody has
// computed are not enforced.
func (s *Server) charge(tx *store.Tx, w *write) (charged []*store.Object, err error) {
	if w.kind.ClusterScoped {
		return nil, nil
	}
	for _, quota := range tx.List("resourcequotas", w.namespace) {
		q := quota.Value()
		hard, asked := obj.Map(q, "status", "hard"), kinds.Usage{}
		if !kinds.Counted(hard, w.kind.Resource) || !kinds.InScope(q, w.kind.Resource, w.next) {
			continue
		}
		refuse := func(text string) ([]*store.Object, error) {
			return nil, answer.Forbidden(w.kind.Group, w.kind.Plural, obj.String(w.next, "metadata", "name"), text)
		}
		if lacking := kinds.Unspecified(hard, w.next); lacking != "" && w.kind.TableName() == "pods" {
			return refuse("failed quota: " + quota.Name + ": must specify " + lacking)
		}
		asked.AddObject(w.kind.Resource, w.next)
		used, limits := s.used(tx, q), kinds.Usage{}
		var over []string
		next := obj.Clone(q)
		for _, name := range slices.Sorted(maps.Keys(hard)) {
			amount, counted := asked[name]
			if !counted {
				continue
			}
			limits.Add(name, obj.String(hard, name))
			total := used[name].Add(amount)
			if total.Cmp(limits[name]) > 0 {
				over = append(over, name)
			}
			obj.Set(next, total.String(), "status", "used", name)
		}
		if len(over) > 0 {
			return refuse("exceeded quota: " + quota.Name + ", requested: " + asked.Format(over) + ", used: " +
				used.Format(over) + ", limited: " + limits.Format(over))
		}
		charged = append(charged, store.NewObject(quota.Key, quota.Revision, next, quota.Shape))
	}
	return charged, nil
}

// used adds up what the objects of a namespace take of a quota.
func (s *Server) used(tx *store.Tx, quota map[string]any) kinds.Usage {
	sum, hard := kinds.Usage{}, obj.Map(quota, "spec", "hard")
	served, _ := s.registry.all()
	done := map[string]bool{}
	for _, k := range served {
		if k.ClusterScoped || done[k.TableName()] || !kinds.Counted(hard, k.Resource) {
			continue
		}
		done[k.TableName()] = true
		for _, o := range tx.List(k.TableName(), obj.String(quota, "metadata", "namespace")) {
			if v := o.Value(); kinds.InScope(quota, k.Resource, v) {
				sum.AddObject(k.Resource, v)
			}
		}
	}
	return sum
}

// countQuotas writes what is used into the status of each quota, as the controller of quotas does.
func (s *Server) countQuotas() {
	by := &request{kind: s.registry.find("", "v1", "resourcequotas"), sub: "status"}
	s.store.Update(func(tx *store.Tx) error {
		for _, quota := range tx.List("resourcequotas", "") {
			q := quota.Value()
			sum, used := s.used(tx, q), map[string]any{}
			hard := obj.Map(q, "spec", "hard")
			for name := range hard {
				used[name] = sum[name].String()
			}
			status := map[string]any{"hard": hard, "used": used}
			if len(hard) == 0 || patch.Equal(status, q["status"]) {
				continue
			}
			next := obj.Clone(q)
			next["status"] = patch.Copy(status)
			recordOwner(by, "kube-controller-manager", next, q)
			tx.Put("resourcequotas", quota.Key, next, quota.Shape)
		}
		return nil
	})
}
