package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"sync"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// readObject checks the parameters of a POST or PUT, reads its object and checks that against the URL. Findings of
// strict validation are refused, returned as warnings or ignored, as the request asks.
func readObject(r *request) (map[string]any, error) {
	if err := checkOptions(r, false); err != nil {
		return nil, err
	}
	body, err := r.readBody()
	if err != nil {
		return nil, err
	}
	v, duplicates, err := forms.ReadValue(r.Request, body, r.sent.Resource)
	if kube.AsStatus(err) != nil {
		return nil, err
	}
	o, err := typed(body, v, err)
	if err != nil {
		return nil, httpd.BadRequest("the object provided is unrecognized (must be of type %s): %v (%s)", r.sent.Kind,
			err, forms.Excerpt(body))
	}
	if err := checkType(r.sent, o, body); err != nil {
		return nil, err
	}
	if err := checkFieldTypes(r.sent, o); err != nil {
		return nil, undecodable(r.sent, err)
	}
	unknown := prune(r.sent, o)
	complaints := complaintsOf(duplicates, unknown)
	if complaints != nil && !r.sent.Custom && json.Valid(body) {
		complaints = inOrder(body, unknown)
	}
	return o, undecodable(r.sent, report(r, complaints))
}

// typed returns a body's value as an object. The error has the words of the real server if it cannot say its kind.
func typed(body []byte, v any, err error) (map[string]any, error) {
	const problem = "couldn't get version/kind; json parse error: "
	o, isObject := v.(map[string]any)
	switch {
	case err == nil && v == nil: // null
		return map[string]any{}, nil
	case err != nil || !isObject:
		var meta struct {
			APIVersion string `json:"apiVersion,omitempty"`
			Kind       string `json:"kind,omitempty"`
		}
		return nil, fmt.Errorf(problem+"%w", goError(body, &meta, err))
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if _, isText := o[field].(string); !isText && o[field] != nil {
			return nil, fmt.Errorf(problem+"json: cannot unmarshal %s into Go struct field .%s of type string",
				schema.JSONType(o[field]), field)
		}
	}
	return o, nil
}

// undecodable returns the 400 for fields of a body that cannot be decoded, nil for nil.
func undecodable(k *kinds.Kind, err error) error {
	if err == nil || kube.AsStatus(err) != nil {
		return err
	}
	return httpd.BadRequest("%s in version %q cannot be handled as a %s: %v", k.Kind, k.Version, k.Kind, err)
}

// checkType compares apiVersion and kind with the endpoint. Built-in kinds may omit both.
func checkType(k *kinds.Kind, o map[string]any, body []byte) error {
	kind, version := obj.String(o, "kind"), obj.String(o, "apiVersion")
	if !k.Custom {
		kind, version = cmp.Or(kind, k.Kind), cmp.Or(strings.TrimPrefix(version, "/"), k.APIVersion())
	}
	switch {
	case kind == "":
		return httpd.BadRequest(
			"the object provided is unrecognized (must be of type %s): Object 'Kind' is missing in '%s' (%s)",
			k.Kind, body, forms.Excerpt(body))
	case version == "":
		return httpd.BadRequest(
			"the object provided is unrecognized (must be of type %s): Object 'apiVersion' is missing in '%s' (%s)",
			k.Kind, body, forms.Excerpt(body))
	case version != k.APIVersion() && !(k.Kind == "Eviction" && version == "policy/v1beta1"):
		return httpd.BadRequest("the API version in the data (%s) does not match the expected API version (%s)",
			version, k.APIVersion())
	case kind != k.Kind && k.Custom:
		d := kube.StatusDetails{Name: obj.String(o, "metadata", "name"), Group: k.Group, Kind: kind}
		return httpd.Invalid(d, obj.Invalid("kind", kind, "must be "+k.Kind))
	case kind != k.Kind:
		return httpd.BadRequest("%s in version %q cannot be handled as a %s: no kind %q is registered for "+
			"version %q", kind, k.Version, k.Kind, kind, k.APIVersion())
	}
	forms.Untyped(o)
	return nil
}

// checkFieldTypes checks the types of all fields (of a custom resource: of its metadata), so that the rest of the
// server can rely on them. The error has the words of Go's decoder.
func checkFieldTypes(k *kinds.Kind, o map[string]any) error {
	text := ""
	meta, isObject := o["metadata"].(map[string]any)
	switch {
	case k.Type != nil:
		text = k.Type.TypeError(o)
	case o["metadata"] != nil && !isObject:
		text = "json: cannot unmarshal " + schema.JSONType(o["metadata"]) + " into Go struct field " + k.Kind +
			".metadata of type v1.ObjectMeta"
	default:
		text = schema.ObjectMeta().TypeError(meta)
	}
	if text == "" && k.Embedded != nil {
		text = k.Embedded(o)
	}
	if text != "" {
		return errors.New(text)
	}
	if meta == nil {
		o["metadata"] = map[string]any{}
	}
	return nil
}

const (
	// smallBody is the length of a body that takes little memory even at its worst: such requests do not wait.
	smallBody = 32 << 10
	// perByte is what a byte of a body takes at most: small objects in JSON take 60 bytes, and the tree of YAML 100.
	perByte = 100
	// bodyMemory is what all bodies may take at a time, estimated.
	bodyMemory = obj.MaxMemory
)

// budget bounds the memory of what requests have decoded. The zero value is ready.
type budget struct {
	mu      sync.Mutex // guards what follows
	used    int
	changed chan struct{} // closed by the next release, nil if nothing waits
}

// claim waits until there is memory for n bytes.
func (b *budget) claim(ctx context.Context, n int) error {
	for {
		b.mu.Lock()
		if b.used+n <= bodyMemory {
			b.used += n
			b.mu.Unlock()
			return nil
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *budget) release(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used -= n; b.changed != nil && n > 0 {
		close(b.changed)
		b.changed = nil
	}
}

// readBody reads the body, and waits until there is memory for what it says, which the request has until its end.
func (r *request) readBody() ([]byte, error) {
	body, err := httpd.ReadBody(r.Request)
	if err != nil || len(body) <= smallBody {
		return body, err
	}
	takes := min(perByte*len(body), bodyMemory)
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType == "application/json" || mediaType == string(kube.MergePatch) || mediaType == string(kube.JSONPatch) {
		if n, err := patch.Measure(body, obj.MaxMemory, obj.MaxDepth); err == nil {
			takes = min(len(body)+n, bodyMemory)
		}
	}
	if err := r.bodies.claim(r.Context(), takes); err != nil {
		return nil, httpd.TimedOut()
	}
	r.claimed += takes
	return body, nil
}
