package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/schema"
)

// Each field of each built-in kind that a typed client writes as protobuf is what it would have been as JSON.
//
// Rules: FD-15
func TestProtobufIsReadAsJSONIs(t *testing.T) {
	types := goTypes()
	for _, k := range tableKinds() {
		kind := schema.For(k.apiVersion, k.kind)
		for _, empty := range []bool{false, true} {
			object := reflect.New(types[kind.Name])
			if !empty {
				f := filler{depth: map[reflect.Type]int{}}
				f.fill(object.Elem())
			}
			raw := must(object.Interface().(interface{ Marshal() ([]byte, error) }).Marshal())(t)
			envelope := must((&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: k.apiVersion, Kind: k.kind},
				Raw: raw}).Marshal())(t)
			got, err := schema.DecodeProtobuf(append([]byte("k8s\x00"), envelope...), "", "")
			if err != nil {
				t.Errorf("%v: %v", k, err)
				continue
			}
			text := must(json.Marshal(object.Interface()))(t)
			value := must(patch.Decode(text))(t)
			want := value.(map[string]any)
			want["apiVersion"], want["kind"] = k.apiVersion, k.kind
			for _, o := range []map[string]any{got, want} { // both have some zero values that are none to Go
				kind.Drop(o)
				kind.Fill(o)
			}
			for _, d := range Compare("", want, got) {
				t.Errorf("%v: %s", k, d)
			}
		}
	}
}

// filler sets all that it finds to something else than the zero value, the types that contain themselves two levels
// deep.
type filler struct {
	n     int
	depth map[reflect.Type]int
}

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch p := v.Addr().Interface().(type) {
	case *metav1.TypeMeta: // no protobuf has it: that of the whole object is in the envelope
		return
	case *metav1.Time:
		*p = metav1.Unix(int64(f.n), 0)
		return
	case *metav1.MicroTime:
		*p = metav1.MicroTime{Time: time.Unix(int64(f.n), 5000).UTC()}
		return
	case *resource.Quantity:
		*p = resource.MustParse(fmt.Sprintf("%dMi", f.n))
		return
	case *intstr.IntOrString:
		if *p = intstr.FromInt32(int32(f.n)); f.n%2 == 0 {
			*p = intstr.FromString(fmt.Sprintf("%d%%", f.n))
		}
		return
	case *runtime.RawExtension:
		p.Raw = fmt.Appendf(nil, `{"raw":%d}`, f.n)
		return
	case *metav1.FieldsV1:
		p.SetRawBytes(fmt.Appendf(nil, `{"f:n%d":{}}`, f.n))
		return
	case *apiextensionsv1.JSON:
		p.Raw = fmt.Appendf(nil, `[%d,null,{"a":"b"}]`, f.n)
		return
	case *apiextensionsv1.JSONSchemaPropsOrArray, *apiextensionsv1.JSONSchemaPropsOrBool,
		*apiextensionsv1.JSONSchemaPropsOrStringArray:
		if f.depth[v.Type()] > 1 {
			return
		}
		f.depth[v.Type()]++
		f.fill(v.Field(f.n % 2)) // one of both
		f.depth[v.Type()]--
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32:
		v.SetInt(int64(-f.n))
	case reflect.Int64:
		v.SetInt(int64(f.n) << 33)
	case reflect.Float64:
		v.SetFloat(float64(f.n) / 2)
	case reflect.Uint8:
		v.SetUint(uint64(f.n % 256))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0))
		f.fill(v.Index(1))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if f.depth[v.Type()] > 1 {
			return
		}
		f.depth[v.Type()]++
		for i := range v.NumField() {
			if !strings.HasPrefix(v.Type().Field(i).Name, "XXX_") {
				f.fill(v.Field(i))
			}
		}
		f.depth[v.Type()]--
	default:
		panic("cannot fill " + v.Type().String())
	}
}

// Each field of each built-in kind is written as Go's own encoder of the kind writes it, byte by byte. Definitions of
// custom resources are not sent in protobuf.
func TestProtobufIsWrittenAsByTheRealTypes(t *testing.T) {
	types := goTypes()
	for _, k := range tableKinds() {
		kind := schema.For(k.apiVersion, k.kind)
		if k.kind == "CustomResourceDefinition" {
			continue
		}
		for _, empty := range []bool{false, true} {
			object := reflect.New(types[kind.Name])
			if !empty {
				f := filler{depth: map[reflect.Type]int{}}
				f.fill(object.Elem())
			}
			value := must(patch.Decode(must(json.Marshal(object.Interface()))(t)))(t)
			got, err := new(schema.Encoder).Append(nil, kind, must(patch.Encode(value))(t))
			if err != nil {
				t.Errorf("%v: %v", k, err)
				continue
			}
			want := must(object.Interface().(interface{ Marshal() ([]byte, error) }).Marshal())(t)
			if !bytes.Equal(got, want) {
				t.Errorf("%v, empty %v:\n%q\nwant\n%q", k, empty, got, want)
			}
		}
	}
}

// Metadata alone is served in protobuf as by the real server: objects, lists and watches, of custom resources, too.
func TestMetadataIsServedInProtobuf(t *testing.T) {
	cluster, fake := ownCluster(t), startFake(t)
	for _, api := range []*API{cluster.Admin, fake} {
		installForScripts(t, api)
		for i, collection := range []string{"/api/v1/namespaces/default/configmaps",
			"/apis/skiff.dev/v1alpha1/namespaces/default/webservers"} {
			o := WebServerObject("a", "nginx:1", 1)
			if i == 0 {
				o = Object{"metadata": Object{"name": "a"}}
			}
			must(api.Create(t.Context(), collection, o))(t)
			var one metav1.PartialObjectMetadata
			if kind := metadataOf(t, api, collection+"/a", &one); one.Name != "a" ||
				kind != "PartialObjectMetadata" {
				t.Errorf("%s: %s %+v", collection, kind, one)
			}
			var list metav1.PartialObjectMetadataList
			kind := metadataOf(t, api, collection+"?fieldSelector=metadata.name%3Da", &list)
			if kind != "PartialObjectMetadataList" || len(list.Items) != 1 || list.Items[0].UID != one.UID ||
				list.ResourceVersion == "" {
				t.Errorf("%s: %s %+v", collection, kind, list)
			}
			watch := collection + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da"
			resp := must(api.send(t.Context(), "GET", watch, metadataAlone, nil))(t)
			stream := must(io.ReadAll(resp.Body))(t)
			if got := resp.Header.Get("Content-Type"); got != "application/vnd.kubernetes.protobuf;stream=watch" ||
				!bytes.Contains(stream, []byte("PartialObjectMetadata")) {
				t.Errorf("%s: a watch in %s: %q", collection, got, stream)
			}
			noError(t, resp.Body.Close())
		}
	}
}

// metadataAlone asks for metadata alone, in protobuf and nothing else.
var metadataAlone = http.Header{"Accept": {"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;" +
	"g=meta.k8s.io;v=v1"}}

// metadataOf reads metadata alone into a type of a real server, and returns the kind that the answer says it is.
func metadataOf(t *testing.T, api *API, path string, into interface{ Unmarshal([]byte) error }) string {
	t.Helper()
	header := metadataAlone
	if _, list := into.(*metav1.PartialObjectMetadataList); list {
		header = http.Header{"Accept": {strings.Replace(header.Get("Accept"), "Metadata;", "MetadataList;", 1)}}
	}
	resp := must(api.send(t.Context(), "GET", path, header, nil))(t)
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(t)
	if got := resp.Header.Get("Content-Type"); got != "application/vnd.kubernetes.protobuf" {
		t.Fatalf("%s: %s %s: %q", path, resp.Status, got, body)
	}
	var envelope runtime.Unknown
	noError(t, envelope.Unmarshal(bytes.TrimPrefix(body, []byte("k8s\x00"))))
	noError(t, into.Unmarshal(envelope.Raw))
	return envelope.Kind
}
