package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/ssa"
	"skiff/internal/testcluster/apiserver/store"
)

// managerOf returns the field manager: the fieldManager parameter, else what can be printed of the User-Agent up to
// the "/", as far as it fits.
func managerOf(r *request) string {
	if m := r.query.Get("fieldManager"); m != "" {
		return m
	}
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	m := ""
	for _, c := range agent {
		if unicode.IsPrint(c) {
			if len(m)+utf8.RuneLen(c) > maxManager {
				break
			}
			m += string(c)
		}
	}
	return cmp.Or(m, "unknown")
}

func writeOf(r *request, manager string) ssa.Write {
	w := ssa.Write{Schema: r.kind.Node, Manager: manager, APIVersion: r.kind.APIVersion(),
		Subresource: r.sub, Now: clock(r.Request)}
	switch {
	case r.sub == "ephemeralcontainers":
		w.Reset = []string{"status", "metadata"}
	case r.sub == "" && r.kind.Approval:
		w.Reset = []string{"status", "spec"}
	case r.sub == "" && r.kind.Status:
		w.Reset = []string{"status"}
	case r.sub == "status" && (r.kind.Custom || r.kind.Isolated):
		w.Reset = []string{"metadata", "spec"}
	case r.sub == "status", r.sub == "approval":
		w.Reset = []string{"spec", "metadata.deletionTimestamp", "metadata." + besidesStatus[r.kind.Plural]}
	}
	return w
}

// recordOwner sets next's managedFields for a write other than an apply, by the served form of the objects: its fields
// are the ones that have owners.
func recordOwner(r *request, manager string, next, cur map[string]any) {
	k := r.kind
	served := func(o map[string]any) map[string]any {
		if o == nil || k.Store == nil {
			return forms.Typed(k, o)
		}
		return patch.FillZero(k.Node, forms.Typed(k, k.View(o))) // the view lacks the zero fields of the stored kind
	}
	list := writeOf(r, manager).Managers(served(cur), served(next))
	if len(list) > 0 {
		obj.Set(next, list, "metadata", "managedFields")
		return
	}
	obj.Remove(next, "metadata", "managedFields")
}

// statusOf is a request for the status of a built-in kind, such as controllers make.
func (s *Server) statusOf(r kube.Resource) *request {
	return &request{kind: s.registry.find(r.Group, r.Version, r.Plural), sub: "status"}
}

// change changes an object in the name of a controller, which then owns the fields that it has changed.
func (r *request) change(tx *store.Tx, manager string, cur *store.Object,
	change func(map[string]any)) *store.Object {
	next := obj.Clone(cur.Value())
	if change(next); obj.EqualExcept(next, cur.Value()) {
		return cur
	}
	recordOwner(r, manager, next, cur.Value())
	return tx.Put(r.kind.TableName(), cur.Key, next, cur.Shape)
}

// apply answers server-side apply, which creates a missing object.
func (s *Server) apply(r *request, body []byte) error {
	v, duplicates, err := obj.DecodeYAML(body)
	config, ok := v.(map[string]any)
	switch {
	case err != nil || !ok:
		return httpd.BadRequest("error decoding YAML: %v", cmp.Or(err, fmt.Errorf("error unmarshaling JSON: while "+
			"decoding JSON: json: cannot unmarshal %s into Go value of type map[string]interface {}",
			schema.JSONType(v))))
	case r.sub == "scale":
		return s.applyScale(r, config)
	}
	return s.applyConfig(r, config, duplicates)
}

func (s *Server) applyConfig(r *request, config map[string]any, duplicates []string) error {
	return s.answerWrite(&write{request: r, applied: true,
		make: func(cur *store.Object) (map[string]any, error) {
			if cur == nil && r.sub != "" {
				return nil, httpd.NotFound(r.kind.Resource, r.name)
			}
			if cur == nil && obj.String(config, "metadata", "uid") != "" {
				return nil, httpd.Conflict(httpd.About(r.kind.Resource, r.name),
					"uid mismatch: the provided object specified uid "+
						obj.String(config, "metadata", "uid")+", and no existing object was found")
			}
			if name := obj.String(config, "metadata", "name"); name != "" && name != r.name {
				return nil, r.otherName(name)
			}
			applied := obj.Clone(config)
			if obj.Map(applied, "metadata") == nil {
				applied["metadata"] = map[string]any{}
			}
			obj.Set(applied, r.name, "metadata", "name")
			if err := checkApplied(r, applied); err != nil {
				return nil, err
			}
			var live map[string]any
			if cur != nil {
				live = forms.Served(r.kind, cur)
			}
			next, err := writeOf(r, managerOf(r)).Apply(live, applied, r.query.Get("force") == "true")
			if err != nil {
				return nil, applyError(err)
			}
			if len(duplicates) > 0 && r.query.Get("fieldValidation") == "Strict" {
				return nil, httpd.BadRequest("error strict decoding YAML: error converting YAML to JSON: %s",
					joinYAML(duplicates)[0])
			}
			if err := report(r, duplicates); err != nil {
				return nil, err
			}
			if cur == nil && obj.String(config, "metadata", "name") == "" {
				return nil, r.noName()
			}
			next = forms.Untyped(next)
			if cur != nil {
				next = r.kind.ToStore(next)
			}
			return next, nil
		}})
}

// checkApplied checks an applied configuration like any other body, except for unknown fields, which the merge
// refuses. For the merge it keeps apiVersion, kind and empty values.
func checkApplied(r *request, applied map[string]any) error {
	version, kind := obj.String(applied, "apiVersion"), obj.String(applied, "kind")
	if version != r.kind.APIVersion() || kind != r.kind.Kind {
		if !strings.Contains(version, "/") { // the group is empty
			version = "/" + version
		}
		return httpd.BadRequest("invalid object type: %s, Kind=%s", version, kind)
	}
	if err := checkFieldTypes(r.kind, forms.Untyped(applied)); err != nil {
		return undecodable(r.kind, err)
	}
	applied["apiVersion"], applied["kind"] = version, r.kind.Kind
	return nil
}

func applyError(err error) error {
	if bad, ok := errors.AsType[*ssa.BadRequestError](err); ok {
		return httpd.BadRequest("%s", bad.Message)
	}
	if c, ok := errors.AsType[*ssa.ConflictError](err); ok {
		return httpd.Failure(http.StatusConflict, kube.ReasonConflict, c.Message,
			kube.StatusDetails{Causes: httpd.StatusCauses(c.Causes)})
	}
	return httpd.PlainError("%v", err)
}
