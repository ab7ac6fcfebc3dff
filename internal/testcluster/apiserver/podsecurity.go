package apiserver

import (
	"fmt"
	"slices"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/podsecurity"
	"skiff/internal/testcluster/apiserver/store"
)

// podTemplates are where the kinds whose pods have to keep to the standards have these, by tables.
var podTemplates = map[string][]string{"pods": {}, "podtemplates": {"template"},
	"replicationcontrollers": {"spec", "template"}, "replicasets.apps": {"spec", "template"},
	"deployments.apps": {"spec", "template"}, "daemonsets.apps": {"spec", "template"},
	"statefulsets.apps": {"spec", "template"}, "jobs.batch": {"spec", "template"},
	"cronjobs.batch": {"spec", "jobTemplate", "spec", "template"}}

// checkSecurity does what the admission plugin PodSecurity does: it refuses a pod that its namespace does not allow,
// warns of one, or of the template of one, that the labels of the namespace want a warning about, and refuses labels
// that mean nothing.
func (s *Server) checkSecurity(tx *store.Tx, w *write) error {
	if slices.Contains(s.opts.WithoutPlugins, podSecurity) {
		return nil
	}
	table := w.kind.TableName()
	if table == "namespaces" && w.sub == "" {
		return s.checkStandards(tx, w)
	}
	path, has := podTemplates[table]
	if !has || w.sub == "status" || w.sub != "" && table != "pods" {
		return nil
	}
	namespace := tx.Get("namespaces", store.Key{Name: w.namespace})
	template := obj.Map(w.next, path...)
	if namespace == nil || template == nil {
		return nil
	}
	policy, _ := podsecurity.PolicyOf(obj.Map(namespace.Value(), "metadata", "labels"))
	minor := s.opts.Features.Minor()
	if table == "pods" {
		if w.cur != nil && !podsecurity.Significant(w.next, w.cur.Value()) {
			return nil
		}
		if v := policy.Enforce.Check(template, minor); len(v) > 0 {
			return w.forbidden(fmt.Sprintf("violates PodSecurity %q: %s", policy.Enforce, v.Details()))
		}
	}
	if v := policy.Warn.Check(template, minor); len(v) > 0 {
		w.warnings = append(w.warnings, fmt.Sprintf("would violate PodSecurity %q: %s", policy.Warn, v.Details()))
	}
	return nil
}

// checkStandards refuses labels of a namespace that name no standard, unless they were there before, and warns of pods
// in it that a new standard does not allow.
func (s *Server) checkStandards(tx *store.Tx, w *write) error {
	policy, causes := podsecurity.PolicyOf(obj.Map(w.next, "metadata", "labels"))
	invalid := httpd.Invalid(httpd.AboutKind(w.kind.Resource, obj.String(w.next, "metadata", "name")), causes...)
	if w.cur == nil {
		return invalid
	}
	before, were := podsecurity.PolicyOf(obj.Map(w.cur.Value(), "metadata", "labels"))
	if len(causes) > 0 && !slices.Equal(causes, were) {
		return invalid
	}
	if policy.Enforce.Tightens(before.Enforce) {
		pods := obj.Each(tx.List("pods", w.cur.Name), (*store.Object).Value)
		w.warnings = append(w.warnings, policy.Enforce.Warnings(w.cur.Name, pods, s.opts.Features.Minor())...)
	}
	return nil
}
