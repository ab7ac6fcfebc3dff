package httpd

import (
	_ "embed"
	"net/http"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// serveOpenAPI answers /openapi/v3 and its documents: enough for `kubectl explain`, and for kubectl to find out that
// the server validates fields, by the parameters of PATCH. The fields of built-in kinds have no descriptions.
func serveOpenAPI(w http.ResponseWriter, r *http.Request, parts []string, all []*kinds.Kind) error {
	version, path, hasPath := strings.Cut(strings.Join(parts, "/"), "/")
	switch {
	case version == "v2" && !hasPath:
		serveOpenAPIV2(w, r)
		return nil
	case version != "v3", hasPath && path == "":
		return NoSuchPath
	}
	docs := documentsOf(all)
	if !hasPath {
		paths := map[string]any{}
		for path := range docs {
			paths[path] = map[string]any{"serverRelativeURL": "/openapi/v3/" + path + "?hash=" +
				hash(Encode(schemasOf(docs, path)))}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		JSON(w, http.StatusOK, map[string]any{"paths": paths})
		return nil
	}
	if _, ok := docs[path]; !ok {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	w.Header().Set("Vary", "Accept")
	if !accepts(r, "application/json") {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	body := Encode(schemasOf(docs, path))
	w.Header().Set("ETag", `"`+hash(body)+`"`)
	Bytes(w, http.StatusOK, body)
	return nil
}

// serveOpenAPIV2 answers without definitions: kubectl asks here only about what has no endpoint, such as a List in a
// file.
func serveOpenAPIV2(w http.ResponseWriter, r *http.Request) {
	const title = "Kubernetes"
	if !strings.Contains(r.Header.Get("Accept"), "protobuf") {
		JSON(w, http.StatusOK, map[string]any{"swagger": "2.0", "paths": map[string]any{},
			"info": map[string]any{"title": title, "version": Version}, "definitions": map[string]any{}})
		return
	}
	w.Header().Set("Content-Type", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
	field := func(number byte, text string) string {
		return string([]byte{number<<3 | 2, byte(len(text))}) + text
	}
	info := field(1, title) + field(2, Version)
	Bytes(w, http.StatusOK, []byte(field(1, "2.0")+field(2, info)+field(8, "")))
}

// documentsOf returns the kinds by the paths of their OpenAPI documents; some documents have none.
func documentsOf(all []*kinds.Kind) map[string][]*kinds.Kind {
	docs := map[string][]*kinds.Kind{}
	for _, path := range []string{"api", "apis", "version", ".well-known/openid-configuration", "openid/v1/jwks"} {
		docs[path] = nil
	}
	for _, k := range all {
		path := strings.TrimPrefix(k.Root(), "/")
		if docs[path] = append(docs[path], k); k.Group != "" && !k.Custom {
			docs["apis/"+k.Group] = nil
		}
	}
	return docs
}

// accepts reports whether a client takes a media type.
func accepts(r *http.Request, mediaType string) bool {
	a := strings.Join(r.Header.Values("Accept"), ",")
	family, _, _ := strings.Cut(mediaType, "/")
	return a == "" || strings.Contains(a, mediaType) || strings.Contains(a, "*/*") || strings.Contains(a, family+"/*")
}

// objectMetaSchema describes the common fields of metadata, for `kubectl explain`.
//
//go:embed objectmeta.json
var objectMetaSchema string

const objectMetaRef = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// schemasOf returns the document of one path: of its kinds, or of discovery alone.
func schemasOf(docs map[string][]*kinds.Kind, path string) map[string]any {
	schemas := map[string]any{objectMetaRef: patch.NewText(objectMetaSchema)}
	paths, ks := map[string]any{}, docs[path]
	if ks == nil {
		paths["/"+path+"/"] = map[string]any{"get": map[string]any{
			"responses": map[string]any{"200": map[string]any{"description": "OK"}}}}
	}
	for _, k := range ks {
		schemas[schemaName(k)] = kindSchema(k, schemas)
		object, collection := pathTemplate(k)
		if k.Review != nil {
			paths[collection] = operations(k, "post")
			continue
		}
		if k.ReadOnly {
			paths[object], paths[collection] = operations(k, "get"), operations(k, "list")
			continue
		}
		paths[object] = operations(k, "get", "put", "patch", "delete")
		paths[collection] = operations(k, "list", "post")
	}
	return map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "Kubernetes", "version": Version},
		"paths": paths, "components": map[string]any{"schemas": schemas}}
}

// schemaName returns the reversed group, the version and the kind: com.example.v1.Widget. For a built-in kind it
// contains the Go package.
func schemaName(k *kinds.Kind) string {
	if k.Type != nil {
		return k.Type.SchemaName()
	}
	labels := strings.Split(k.Group, ".")
	slices.Reverse(labels)
	return strings.Join(append(labels, k.Version, k.Kind), ".")
}

func pathTemplate(k *kinds.Kind) (object, collection string) {
	collection = k.Root() + "/namespaces/{namespace}/" + k.Plural
	if k.ClusterScoped {
		collection = k.Root() + "/" + k.Plural
	}
	return collection + "/{name}", collection
}

// kindSchema returns the schema of a kind, and adds those of the types that it refers to to schemas.
func kindSchema(k *kinds.Kind, schemas map[string]any) map[string]any {
	out := map[string]any{"type": "object"}
	switch {
	case k.OpenAPI != nil:
		out = obj.Clone(k.OpenAPI)
	case k.Type != nil:
		k.Type.Schemas(schemas)
		out = obj.Clone(obj.Map(schemas, k.Type.SchemaName()))
		out["description"] = "A built-in kind of Kubernetes; its fields are described at " +
			"https://kubernetes.io/docs/reference/kubernetes-api/."
	}
	for field, text := range map[string]string{
		"apiVersion": "APIVersion defines the versioned schema of this representation of an object.",
		"kind":       "Kind is a string value representing the REST resource this object represents."} {
		obj.Set(out, map[string]any{"type": "string", "description": text}, "properties", field)
	}
	obj.Set(out, map[string]any{"description": "Standard object's metadata.",
		"allOf": []any{map[string]any{"$ref": "#/components/schemas/" + objectMetaRef}}}, "properties", "metadata")
	out["x-kubernetes-group-version-kind"] = []any{kindRef(k.Resource)}
	return out
}

// parameters are those of the operations that kubectl looks at.
var parameters = map[string][]string{"delete": {"dryRun"}, "post": {"dryRun", "fieldManager", "fieldValidation"},
	"put":   {"dryRun", "fieldManager", "fieldValidation"},
	"patch": {"dryRun", "fieldManager", "fieldValidation", "force"}}

// operations describes some verbs. kubectl reads the kind and the parameters of PATCH. Strategic merge patch is not
// declared, so that kubectl computes such patches from its own types.
func operations(k *kinds.Kind, actions ...string) map[string]any {
	ref := map[string]any{"$ref": "#/components/schemas/" + schemaName(k)}
	out := map[string]any{}
	for _, action := range actions {
		operation := map[string]any{"operationId": action + k.Kind, "x-kubernetes-action": action,
			"x-kubernetes-group-version-kind": kindRef(k.Resource),
			"responses": map[string]any{"200": map[string]any{"description": "OK",
				"content": map[string]any{"application/json": map[string]any{"schema": ref}}}}}
		var list []any
		for _, p := range parameters[action] {
			list = append(list, map[string]any{"name": p, "in": "query", "schema": map[string]any{"type": "string"}})
		}
		if list != nil {
			operation["parameters"] = list
		}
		out[strings.Replace(action, "list", "get", 1)] = operation
	}
	return out
}
