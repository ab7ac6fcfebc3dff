package ssa

import (
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// kubectl migrates from client-side to server-side apply without conflicts, because the API server knows both managers
// by name (managedfields/lastappliedmanager.go and lastappliedupdater.go).
const (
	kubectl     = "kubectl"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// clientSideApplied returns the fields of live that kubectl has set by client-side apply and that have not changed
// since: an apply by kubectl may take them over.
func (w Write) clientSideApplied(live map[string]any) set {
	text := annotation(live)
	if w.Manager != kubectl || text == "" {
		return nil
	}
	v, err := patch.Decode([]byte(text))
	config, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil // not a configuration
	}
	fields, err := fieldsOf(w.Schema, config)
	if err != nil {
		return nil
	}
	return compareObjects(w.Schema, config, live).keep(fields)
}

// keepLastApplied updates the annotation of client-side apply, if the object has one, with the configuration that
// kubectl applied, so that both kinds of apply can be mixed.
func (w Write) keepLastApplied(merged, applied map[string]any) error {
	if w.Manager != kubectl || annotation(merged) == "" {
		return nil
	}
	config := obj.Clone(applied)
	obj.Remove(config, "metadata", "annotations", lastApplied)
	text, err := patch.Encode(config)
	if err != nil {
		return err
	}
	obj.Set(merged, string(text)+"\n", "metadata", "annotations", lastApplied)
	return nil
}

func annotation(object map[string]any) string {
	return obj.String(object, "metadata", "annotations", lastApplied)
}
