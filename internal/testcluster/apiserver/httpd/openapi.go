package httpd

import (
	_ "embed"
	"net/http"
	"slices"
	"strings"
	"sync"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// OpenAPI answers /openapi: the documents that clients read fields from, such as `kubectl explain`, and in which they
// find out by the parameters of PATCH that the server validates fields. The fields of built-in kinds have no
// descriptions. A document is made when it is first asked for.
type OpenAPI struct {
	Version string // of Kubernetes

	mu   sync.Mutex         // guards what follows, and lets one document be made at a time
	of   []*kinds.Kind      // the kinds that the documents are about
	docs map[docName][]byte // as they are sent
	size int                // of all
}

// docName names a document: path is that of v3, and empty for the one of v2.
type docName struct {
	version, path string
	inProtobuf    bool
}

// maxDocuments is how much is kept of documents: those of the built-in kinds take 2 MiB, and those of 140 large
// definitions 20.
const maxDocuments = 32 << 20

// get returns a document, which it makes if it is not kept.
func (o *OpenAPI) get(all []*kinds.Kind, d docName) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(all, o.of) {
		o.of, o.docs, o.size = all, map[docName][]byte{}, 0
	}
	if body := o.docs[d]; body != nil {
		return body
	}
	var content map[string]any
	if d.version == "v2" {
		content = documentV2(all)
	} else {
		content = documentV3(documentsOf(all), d.path)
	}
	content["info"] = map[string]any{"title": "Kubernetes", "version": o.Version}
	var body []byte
	if d.inProtobuf {
		body = encodeOpenAPI(d.version, content)
	} else {
		body = Encode(content)
	}
	if o.size+len(body) <= maxDocuments {
		o.docs[d] = body
		o.size += len(body)
	}
	return body
}

func (o *OpenAPI) serve(w http.ResponseWriter, r *http.Request, parts []string, all []*kinds.Kind) error {
	version, path, hasPath := strings.Cut(strings.Join(parts, "/"), "/")
	docs := documentsOf(all)
	_, known := docs[path]
	switch {
	case version == "v2" && !hasPath, version == "v3" && known:
	case version == "v3" && !hasPath:
		paths := map[string]any{}
		for path := range docs {
			paths[path] = map[string]any{"serverRelativeURL": "/openapi/v3/" + path + "?hash=" +
				hash(o.get(all, docName{version: "v3", path: path}))}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		JSON(w, http.StatusOK, map[string]any{"paths": paths})
		return nil
	case version == "v3" && path != "":
		w.WriteHeader(http.StatusNotFound)
		return nil
	default:
		return NoSuchPath
	}
	w.Header().Set("Vary", "Accept")
	const family = "application/com.github.proto-openapi.spec."
	inProtobuf := strings.Contains(r.Header.Get("Accept"), family+version+"@v1.0+protobuf") ||
		strings.Contains(r.Header.Get("Accept"), family+version+".v1.0+protobuf")
	if !inProtobuf && !accepts(r, "application/json") {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	body := o.get(all, docName{version, path, inProtobuf})
	w.Header().Set("ETag", `"`+hash(body)+`"`)
	if inProtobuf {
		w.Header().Set("Content-Type", family+version+".v1.0+protobuf")
	}
	Bytes(w, http.StatusOK, body)
	return nil
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

func accepts(r *http.Request, mediaType string) bool {
	a := strings.Join(r.Header.Values("Accept"), ",")
	family, _, _ := strings.Cut(mediaType, "/")
	return a == "" || strings.Contains(a, mediaType) || strings.Contains(a, "*/*") || strings.Contains(a, family+"/*")
}

// objectMetaTexts has the descriptions of the common fields of metadata, for `kubectl explain`.
//
//go:embed objectmeta.json
var objectMetaTexts []byte

// objectMeta adds the schema of metadata to schemas, and returns its name.
func objectMeta(schemas map[string]any) string {
	meta := schema.ObjectMeta()
	if name := meta.SchemaName(); schemas[name] != nil {
		return name
	}
	meta.Schemas(schemas)
	texts, err := patch.Decode(objectMetaTexts)
	if err != nil {
		panic(err) // never: it is embedded
	}
	for name, text := range obj.Map(texts.(map[string]any), "properties") {
		field := obj.Map(schemas, meta.SchemaName(), "properties", name)
		field["description"] = text.(map[string]any)["description"]
	}
	return meta.SchemaName()
}

// describe returns the schemas and paths of kinds, as OpenAPI v3 has them.
func describe(ks []*kinds.Kind) (schemas, paths map[string]any) {
	schemas, paths = map[string]any{}, map[string]any{}
	objectMeta(schemas)
	for _, k := range ks {
		schemas[schemaName(k)] = kindSchema(k, schemas)
		for _, sub := range k.Subresources() {
			if sent := sub.Sent(k); sent != k && sent.Type != nil {
				schemas[schemaName(sent)] = kindSchema(sent, schemas)
			}
		}
		collection := k.Root() + "/namespaces/{namespace}/" + k.Plural
		if k.ClusterScoped {
			collection = k.Root() + "/" + k.Plural
		}
		object := collection + "/{name}"
		if k.Review != nil {
			paths[collection] = operations(k, "post")
			continue
		}
		schemas[listName(k)] = listSchema(k, schemas)
		if k.ReadOnly {
			paths[object], paths[collection] = operations(k, "get"), operations(k, "list")
			continue
		}
		paths[object] = operations(k, "get", "put", "patch", "delete")
		paths[collection] = operations(k, "list", "post")
	}
	return schemas, paths
}

// documentV3 returns the document of one path: of its kinds, or of discovery alone.
func documentV3(docs map[string][]*kinds.Kind, path string) map[string]any {
	schemas, paths := describe(docs[path])
	if docs[path] == nil {
		paths["/"+path+"/"] = map[string]any{"get": map[string]any{
			"responses": map[string]any{"200": map[string]any{"description": "OK"}}}}
	}
	return map[string]any{"openapi": "3.0.0", "paths": paths, "components": map[string]any{"schemas": schemas}}
}

func listName(k *kinds.Kind) string { return strings.TrimSuffix(schemaName(k), k.Kind) + k.List() }

func listSchema(k *kinds.Kind, schemas map[string]any) map[string]any {
	schema.For("v1", "ListMeta").Schemas(schemas)
	text := map[string]any{"type": "string"}
	return map[string]any{"type": "object", "required": []any{"items"}, "properties": map[string]any{
		"apiVersion": text, "kind": text, "metadata": schema.RefTo(schema.ListMetaName),
		"items": map[string]any{"type": "array", "items": schema.RefTo(schemaName(k))}},
		"x-kubernetes-group-version-kind": []any{map[string]any{"group": k.Group, "version": k.Version,
			"kind": k.List()}}}
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
	if k.Type == nil || k.Type.Fields["metadata"].Value != nil {
		meta := schema.RefTo(objectMeta(schemas))
		meta["description"] = "Standard object's metadata."
		obj.Set(out, meta, "properties", "metadata")
	}
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
	ref := map[string]any{"$ref": schema.RefPrefix + schemaName(k)}
	out := map[string]any{}
	for _, action := range actions {
		operation := map[string]any{"operationId": action + k.Kind, "x-kubernetes-action": action,
			"x-kubernetes-group-version-kind": kindRef(k.Resource),
			"responses": map[string]any{"200": map[string]any{"description": "OK",
				"content": map[string]any{"application/json": map[string]any{"schema": ref}}}}}
		operation["parameters"] = obj.Each(parameters[action], func(name string) any {
			return map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": "string"}}
		})
		out[strings.Replace(action, "list", "get", 1)] = obj.OmitEmpty(operation)
	}
	return out
}
