package fakeapi

import (
	"fmt"
	"net/http"
	"slices"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

var bindingKind = kube.Resource{Version: "v1", Kind: "Binding"}

// bind answers POST pods/NAME/binding, by which a scheduler assigns a pod to a node, once.
func (s *Server) bind(w http.ResponseWriter, r *request) error {
	if r.verb != "create" {
		return answer.MethodNotAllowed()
	}
	binding, err := readPosted(r, bindingKind)
	if err != nil {
		return err
	}
	node, kind := obj.String(binding, "target", "name"), obj.String(binding, "target", "kind")
	switch { // in the real server's order and wording
	case kind != "" && kind != "Node":
		return answer.PlainError("target.kind: Unsupported value: %q: supported values: \"Node\", \"<empty>\"", kind)
	case node == "":
		return answer.PlainError("target.name: Required value")
	}
	if binding, err = s.admitPosted(r, binding); err != nil {
		return err
	}
	node = obj.String(binding, "target", "name")
	err = s.store.Update(func(tx *store.Tx) error {
		cur := tx.Get(r.kind.TableName(), store.Key(r.key()))
		if cur == nil {
			return answer.NotFound(r.kind.Resource, r.name)
		}
		if err := sameUID(r.kind, obj.Map(binding, "metadata"), obj.Map(cur.Value(), "metadata")); err != nil {
			return err
		}
		if on := obj.String(cur.Value(), "spec", "nodeName"); on != "" {
			return answer.Conflict(kube.StatusDetails{Name: r.name, Kind: "pods/binding"},
				fmt.Sprintf("pod %s is already assigned to node %q", r.name, on))
		}
		next := obj.Clone(cur.Value()) // a binding changes neither the generation nor managedFields
		obj.Set(next, node, "spec", "nodeName")
		conditions := slices.DeleteFunc(obj.Slice(next, "status", "conditions"), func(c any) bool {
			return obj.String(c.(map[string]any), "type") == "PodScheduled"
		})
		scheduled := map[string]any{"type": "PodScheduled", "status": "True", "lastProbeTime": nil,
			"lastTransitionTime": now()}
		obj.Set(next, append(conditions, scheduled), "status", "conditions")
		tx.Put(r.kind.TableName(), cur.Key, next, cur.Shape)
		return nil
	})
	if err != nil {
		return err
	}
	answer.Created(w)
	return nil
}
