package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// finalizerCleanup keeps a deleted CRD until its instances are deleted.
const finalizerCleanup = "customresourcecleanup.apiextensions.k8s.io"

// serveCRDs updates the served kinds from the stored CRDs: it establishes new CRDs, replaces changed ones, and removes
// deleted ones after their instances. It returns after what time to call it again, 0 if nothing is pending.
func (s *Server) serveCRDs() (next time.Duration) {
	s.store.Update(func(tx *store.Tx) error {
		stored := map[string]bool{}
		for _, o := range tx.List(kinds.CRDs.GroupResource(), "") {
			stored[o.Name] = true
			if o.Deleting {
				s.removeCRD(tx, o)
				continue
			}
			next = sooner(next, s.establish(tx, o))
		}
		for _, table := range s.registry.customTables() {
			if !stored[table] {
				s.registry.replace(table, 0, nil)
			}
		}
		return nil
	})
	return next
}

// removeCRD deletes the instances of a CRD that is being deleted, and then the CRD.
func (s *Server) removeCRD(tx *store.Tx, crd *store.Object) {
	crd = s.setCRDStatus(tx, crd, func(o map[string]any) {
		setCondition(o, "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
	})
	// all versions share the table
	if versions, _ := s.registry.served(crd.Name); len(versions) > 0 && s.empty(tx, versions[0], "") > 0 {
		return
	}
	s.registry.replace(crd.Name, 0, nil)
	value := obj.Clone(crd.Value())
	finalizers := slices.DeleteFunc(obj.Slice(value, "metadata", "finalizers"),
		func(f any) bool { return f == finalizerCleanup })
	if len(finalizers) == 0 {
		tx.Delete(kinds.CRDs.GroupResource(), crd.Key, obj.Clone(crd.Value()))
		return
	}
	obj.Set(value, finalizers, "metadata", "finalizers")
	if !obj.EqualExcept(value, crd.Value()) {
		tx.Put(kinds.CRDs.GroupResource(), crd.Key, value, nil)
	}
}

// establish serves a CRD and sets its conditions. A CRD whose names are in use is not served, until they are free.
func (s *Server) establish(tx *store.Tx, crd *store.Object) (wait time.Duration) {
	versions, revision := s.registry.served(crd.Name)
	if revision == crd.Revision {
		return 0
	}
	created, err := time.Parse(time.RFC3339, crd.Created)
	if err == nil && s.opts.CRDDelay > 0 && len(versions) == 0 {
		if left := s.opts.CRDDelay - time.Since(created); left > 0 {
			return left
		}
	}
	crd = s.setCRDStatus(tx, crd, func(o map[string]any) {
		if conflict, taken := acceptNames(tx, o); taken != "" {
			setCondition(o, "NamesAccepted", "False", conflict, taken)
			if !kinds.Holds(o, "Established") {
				setCondition(o, "Established", "False", "NotAccepted", "not all names are accepted")
			}
			return
		}
		setCondition(o, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
		if !kinds.Holds(o, "Established") {
			setCondition(o, "Established", "False", "Installing", "the initial names have been accepted")
		}
	})
	if kinds.Holds(crd.Value(), "NamesAccepted") { // a step of its own, as it is another controller's
		crd = s.setCRDStatus(tx, crd, func(o map[string]any) {
			setCondition(o, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
		})
	}
	var served []*kinds.Kind
	if kinds.Holds(crd.Value(), "Established") {
		served = s.customKinds(crd.Value())
	}
	revision = crd.Revision
	if !kinds.Holds(crd.Value(), "NamesAccepted") {
		revision = -1 // look again after each write whether the names are free
	}
	s.registry.replace(crd.Name, revision, served)
	return 0
}

// setCRDStatus changes the status of a CRD as the server's own controllers do.
func (s *Server) setCRDStatus(tx *store.Tx, crd *store.Object, change func(map[string]any)) *store.Object {
	return s.statusOf(kinds.CRDs).change(tx, "kube-apiserver", crd, change)
}

// terminate marks a CRD as being deleted, with the finalizer that keeps it until its instances are gone.
func terminate(crd map[string]any, ahead time.Duration) {
	meta := obj.Map(crd, "metadata")
	meta["deletionTimestamp"] = timestamp(time.Now().Add(ahead))
	meta["finalizers"] = append(obj.Slice(meta, "finalizers"), finalizerCleanup)
	setCondition(crd, "Terminating", "True", "InstanceDeletionPending",
		"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
}

// acceptNames accepts the names of a CRD that no other one of its group has, and returns the conflict about the rest.
func acceptNames(tx *store.Tx, crd map[string]any) (reason, message string) {
	used := map[[2]string]bool{}
	fields := [][2]string{{"plural", "resource"}, {"singular", "resource"}, {"shortNames", "resource"},
		{"kind", "kind"}, {"listKind", "kind"}} // and what they name
	list := func(names map[string]any, f string) []string {
		if one := obj.String(names, f); one != "" {
			return []string{one}
		}
		return obj.Texts(names, f)
	}
	for _, o := range tx.List(kinds.CRDs.GroupResource(), "") {
		for _, f := range fields {
			if obj.String(o.Value(), "spec", "group") == obj.String(crd, "spec", "group") {
				for _, name := range list(obj.Map(o.Value(), "status", "acceptedNames"), f[0]) {
					used[[2]string{f[1], name}] = true
				}
			}
		}
	}
	obj.Default(crd, map[string]any{}, "status", "acceptedNames")
	names, accepted := obj.Map(crd, "spec", "names"), obj.Map(crd, "status", "acceptedNames")
	keep(accepted, names, "categories")
	for _, f := range fields {
		var taken []string
		for _, name := range list(names, f[0]) {
			if used[[2]string{f[1], name}] && !slices.Contains(list(accepted, f[0]), name) {
				taken = append(taken, strconv.Quote(name)+" is already in use")
			}
		}
		if len(taken) == 0 {
			keep(accepted, names, f[0])
			continue
		}
		reason, message = strings.ToUpper(f[0][:1])+f[0][1:]+"Conflict", obj.Aggregate(taken)
	}
	return reason, message
}

// setCondition sets one condition. lastTransitionTime changes only with the status.
func setCondition(o map[string]any, kind, status, reason, message string) {
	c, since := kinds.Condition(o, kind), any(now())
	if c == nil {
		c = map[string]any{}
		obj.Set(o, append(obj.Slice(o, "status", "conditions"), c), "status", "conditions")
	} else if c["status"] == status {
		since = c["lastTransitionTime"]
	}
	overwrite(c, map[string]any{"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": since})
}

// customKinds returns the kinds of a CRD, one for each served version.
func (s *Server) customKinds(crd map[string]any) (out []*kinds.Kind) {
	spec, names, of := obj.Map(crd, "spec"), obj.Map(crd, "status", "acceptedNames"), s.newFamily(crd)
	for _, v := range obj.Maps(spec, "versions") {
		sc, _ := schema.Parse(obj.Get(v, "schema", "openAPIV3Schema"), "") // one with errors was refused
		sh := &shape{family: of, schema: sc, Resource: kube.Resource{Group: obj.String(spec, "group"),
			Version: obj.String(v, "name"), Plural: obj.String(names, "plural"), Kind: obj.String(names, "kind"),
			ClusterScoped: obj.String(spec, "scope") == "Cluster"}}
		of.versions[sh.Version] = sh
		if obj.Bool(v, "storage") {
			of.storage = sh
		}
		if obj.Bool(v, "served") {
			out = append(out, s.customKind(spec, names, v, sh))
		}
	}
	return out
}

func (s *Server) customKind(spec, names, version map[string]any, sh *shape) *kinds.Kind {
	k := &kinds.Kind{Shape: sh, Resource: sh.Resource,
		Singular: obj.String(names, "singular"), ListKind: obj.String(names, "listKind"),
		ShortNames: obj.Texts(names, "shortNames"),
		Categories: obj.Texts(names, "categories"),
		Custom:     true, NeedsVersion: true,
		Status: obj.Map(version, "subresources", "status") != nil, Columns: kinds.CustomColumns(version),
	}
	if obj.Bool(version, "deprecated") {
		if k.Warning = obj.String(version, "deprecationWarning"); k.Warning == "" {
			k.Warning = k.APIVersion() + " " + k.Kind + " is deprecated" + replacement(k, spec)
		}
	}
	if sc := obj.Map(version, "subresources", "scale"); sc != nil {
		k.Scale = &kinds.Scale{Spec: simplePath(obj.String(sc, "specReplicasPath")),
			Status:   simplePath(obj.String(sc, "statusReplicasPath")),
			Selector: simplePath(obj.String(sc, "labelSelectorPath"))}
	}
	k.OpenAPI = obj.Map(version, "schema", "openAPIV3Schema")
	if sh.schema != nil {
		useSchema(k, sh.schema)
		s.addRules(k, sh.schema)
	}
	for _, path := range kinds.SelectablePaths(version) {
		if k.Fields == nil {
			k.Fields = map[string]func(map[string]any) string{}
		}
		k.Fields[strings.Join(path, ".")] = func(o map[string]any) string {
			if v := obj.Get(o, path...); v != nil {
				return fmt.Sprint(v)
			}
			return ""
		}
	}
	k.Generation = func(next, cur map[string]any) bool {
		except := []string{"metadata"}
		if k.Status {
			except = append(except, "status")
		}
		return !obj.EqualExcept(next, cur, except...)
	}
	return k
}

// replacement names the newest version that is served in the place of one that is deprecated.
func replacement(k *kinds.Kind, spec map[string]any) string {
	best := k.Version
	for _, v := range obj.Maps(spec, "versions") {
		name := obj.String(v, "name")
		if obj.Bool(v, "served") && !obj.Bool(v, "deprecated") && kinds.CompareVersions(name, best) < 0 {
			best = name
		}
	}
	if best == k.Version {
		return ""
	}
	return "; use " + k.Group + "/" + best + " " + k.Kind
}

// useSchema validates, prunes and defaults the kind's objects by a schema.
func useSchema(k *kinds.Kind, s *schema.Schema) {
	k.Node = s.Node()
	k.Unknown = func(o map[string]any) []string {
		pruned, unknown := s.Prune(o)
		overwrite(o, pruned)
		return unknown
	}
	k.Embedded = func(o map[string]any) string { return s.MetadataError(o, "") }
	k.Defaults = func(o map[string]any) { overwrite(o, s.Default(o)) }
	k.View = func(o map[string]any) map[string]any { // of what was stored under an older schema
		o, _ = s.Prune(o)
		return s.Default(o)
	}
	k.Validate = func(next, cur map[string]any) []kinds.Cause {
		out := s.Validate(next, cur)
		if k.Scale != nil {
			out = append(out, scaleCauses(next, k.Scale)...)
		}
		return out
	}
}

func overwrite(dst, src map[string]any) {
	clear(dst)
	maps.Copy(dst, src)
}

// simplePath splits a JSON path such as .spec.replicas; nil for none.
func simplePath(path string) []string {
	path = strings.TrimPrefix(path, ".")
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}
