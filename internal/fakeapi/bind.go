package fakeapi

import (
	"fmt"
	"net/http"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

var bindingKind = kube.Resource{Version: "v1", Kind: "Binding"}

// bind answers POST pods/NAME/binding: a scheduler's only way to put a pod on a node, and it works once.
func (s *Server) bind(w http.ResponseWriter, r *request) error {
	if r.verb != "create" {
		return methodNotAllowed()
	}
	body, err := readBody(r.Request)
	if err != nil {
		return err
	}
	v, _, err := readValue(r.Request, body, bindingKind)
	if kube.AsStatus(err) != nil {
		return err
	}
	binding, _ := v.(map[string]any)
	node := obj.String(binding, "target", "name")
	if err != nil || node == "" {
		return badRequest("the object provided is unrecognized (must be of type Binding): target.name is missing")
	}
	err = s.store.Update(func(tx *store.Tx) error {
		cur := tx.Get(r.kind.TableName(), store.Key(r.key()))
		if cur == nil {
			return notFound(r.kind.Resource, r.name)
		}
		if on := obj.String(cur.Value, "spec", "nodeName"); on != "" {
			return conflict(kube.StatusDetails{Name: r.name, Kind: "pods/binding"}, fmt.Sprintf("pod %s is already assigned to node %q", r.name, on))
		}
		next := obj.Clone(cur.Value) // binding is no new generation and has no owner in managedFields
		obj.Set(next, node, "spec", "nodeName")
		scheduled := map[string]any{"type": "PodScheduled", "status": "True", "lastProbeTime": nil, "lastTransitionTime": now()}
		obj.Set(next, append(obj.Slice(next, "status", "conditions"), scheduled), "status", "conditions")
		tx.Put(r.kind.TableName(), cur.Key, next, cur.Shape)
		return nil
	})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success", "code": int64(http.StatusCreated)})
	return nil
}
