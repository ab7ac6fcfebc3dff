package apiserver

import (
	"maps"
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// charge refuses a write that a quota of its namespace has no room for, as the admission plugin ResourceQuota does. It
// returns the quotas with what they have left, to be stored with the object. Quotas whose status no controller has
// computed are not enforced.
func (s *Server) charge(tx *store.Tx, w *write) (charged []*store.Object, err error) {
	if w.kind.ClusterScoped || !w.charged() {
		return nil, nil
	}
	for _, quota := range tx.List("resourcequotas", w.namespace) {
		q := quota.Value()
		hard, asked := obj.Map(q, "status", "hard"), kinds.Usage{}
		if !kinds.Counted(hard, w.kind.Resource) || !kinds.InScope(q, w.kind.Resource, w.next) {
			continue
		}
		refuse := func(text string) ([]*store.Object, error) { return nil, w.forbidden(text) }
		if lacking := kinds.Unspecified(hard, w.next); lacking != "" && w.kind.TableName() == "pods" {
			return refuse("failed quota: " + quota.Name + ": must specify " + lacking)
		}
		asked.AddObject(w.kind.Resource, w.next)
		if w.cur != nil && kinds.InScope(q, w.kind.Resource, w.cur.Value()) {
			before := kinds.Usage{}
			before.AddObject(w.kind.Resource, w.cur.Value())
			asked = asked.Less(before)
		}
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
		if !patch.Equal(next, q) {
			recordOwner(s.statusOf(resourceQuotas), "kube-apiserver", next, q)
			charged = append(charged, store.NewObject(quota.Key, quota.Revision, next, quota.Shape))
		}
	}
	return charged, nil
}

// charged reports whether quotas have to do with such a write: one that creates, or an update that may take more.
func (w *write) charged() bool {
	if w.cur == nil {
		return true
	}
	_, before := obj.Int(w.cur.Value(), "spec", "activeDeadlineSeconds")
	_, deadline := obj.Int(w.next, "spec", "activeDeadlineSeconds")
	switch w.kind.TableName() {
	case "pods":
		return w.sub == "resize" || w.sub == "" && before != deadline
	case "services", "persistentvolumeclaims", "resourceclaims.resource.k8s.io":
		return w.sub == ""
	}
	return false
}

// forbidden is the answer of an admission plugin that refuses a write.
func (w *write) forbidden(text string) error {
	return httpd.Forbidden(w.kind.Group, w.kind.Plural, obj.String(w.next, "metadata", "name"), text)
}

// used adds up what the objects of a namespace take of a quota.
func (s *Server) used(tx *store.Tx, quota map[string]any) kinds.Usage {
	sum, hard := kinds.Usage{}, obj.Map(quota, "spec", "hard")
	done := map[string]bool{}
	for _, k := range s.registry.all() {
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

var resourceQuotas = kube.Resource{Version: "v1", Plural: "resourcequotas"}

// countQuotas writes what is used into the status of each quota, as the controller of quotas does.
func (s *Server) countQuotas() {
	s.store.Update(func(tx *store.Tx) error {
		for _, quota := range tx.List(resourceQuotas.Plural, "") {
			sum, used := s.used(tx, quota.Value()), map[string]any{}
			hard := obj.Map(quota.Value(), "spec", "hard")
			for name := range hard {
				used[name] = sum[name].String()
			}
			if len(hard) > 0 {
				s.statusOf(resourceQuotas).change(tx, "kube-controller-manager", quota, func(next map[string]any) {
					next["status"] = map[string]any{"hard": patch.Copy(hard), "used": used}
				})
			}
		}
		return nil
	})
}
