package forms

import (
	"mime"
	"net/http"
	"strings"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// Lists and watches of the built-in kinds are answered in protobuf, to clients that prefer it; all else is in JSON.

// PrefersProtobuf reports whether a client prefers protobuf, and the kind has that form.
func PrefersProtobuf(r *http.Request, k *kinds.Kind) bool {
	if k.Custom || protobufForm(k) == nil {
		return false
	}
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	mediaType, params, err := mime.ParseMediaType(first)
	return err == nil && mediaType == ProtobufType && params["as"] == ""
}

// protobufForm is nil for a kind that has none, and for definitions of custom resources: their schemas are not
// encoded.
func protobufForm(k *kinds.Kind) *schema.Type {
	if k.Kind == "CustomResourceDefinition" {
		return nil
	}
	return schema.For(k.APIVersion(), k.Kind)
}

func ProtobufObject(k *kinds.Kind, o *store.Object) ([]byte, error) {
	return protobufForm(k).Encode(k.APIVersion(), k.Kind, Served(k, o))
}

// WriteProtobufList answers with a list, which is held as a whole, because its length is ahead of it.
func WriteProtobufList(w http.ResponseWriter, k *kinds.Kind, meta map[string]any, objects []*store.Object) error {
	items := make([]map[string]any, 0, len(objects))
	for _, o := range objects {
		items = append(items, Served(k, o))
	}
	body, err := protobufForm(k).EncodeList(k.APIVersion(), k.List(), meta, items)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", ProtobufType)
	httpd.Bytes(w, http.StatusOK, body)
	return nil
}

// ProtobufStatus encodes a Status.
func ProtobufStatus(status map[string]any) []byte {
	return must(schema.For("v1", "Status").Encode("v1", "Status", status))
}

// WriteProtobufError is writeError for a request that is answered in protobuf.
func WriteProtobufError(w http.ResponseWriter, err error) {
	body, st := httpd.StatusObject(err)
	w.Header().Set("Content-Type", ProtobufType)
	httpd.SetRetryAfter(w, st)
	httpd.Bytes(w, st.Code, ProtobufStatus(body))
}

// ProtobufBookmark encodes a bookmark, whose object has the fields of one kind and says that it is of another, which
// may be the same.
func ProtobufBookmark(fieldsOf, said *kinds.Kind, meta map[string]any) []byte {
	return must(protobufForm(fieldsOf).Encode(said.APIVersion(), said.Kind, map[string]any{"metadata": meta}))
}

// must is for objects that the server made itself.
func must(body []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return body
}
