package forms

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
)

// Accept is the form of answer that a client asks for.
type Accept struct {
	Protobuf     bool
	Table        bool
	MetadataOnly bool          // PartialObjectMetadata or its list
	Include      string        // includeObject
	Meta         string        // the apiVersion of a Table or of metadata alone
	Ahead        time.Duration // how far the server's clock is ahead, for ages
}

// streams are the media types of watches.
const streams = "application/json;stream=watch, " + ProtobufType + ";stream=watch"

// NoWatch refuses a watch in a form that has no frames.
func NoWatch() error {
	return httpd.NotAcceptable("only the following media types are accepted: " + streams)
}

// clause is a media type that a client accepts.
type clause struct {
	mediaType string
	params    map[string]string
	weight    float64
}

func (c clause) isJSON() bool {
	return c.mediaType == "application/json" || c.mediaType == "*/*" || c.mediaType == "application/*"
}

// clauses returns what a client accepts, what it likes best first.
func clauses(r *http.Request) (out []clause) {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mt, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		c := clause{mt, params, 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			c.weight = q
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b clause) int { return cmp.Compare(b.weight, a.weight) })
	return out
}

// PrefersProtobuf reports whether a client prefers protobuf, and the kind has that form. An error, for which k is nil,
// always has it, and is never a Table or metadata alone.
func PrefersProtobuf(r *http.Request, k *kinds.Kind) bool {
	if k != nil && (k.Custom || protobufForm(k) == nil) {
		return false
	}
	for _, c := range clauses(r) {
		switch {
		case k == nil && c.params["as"] != "":
		case c.mediaType == ProtobufType && c.params["as"] == "":
			return true
		case c.isJSON(), c.mediaType == yamlType:
			return false
		}
	}
	return false
}

// Negotiate reads the Accept header of a client that does not prefer protobuf. collection says whether a list or a
// watch is asked for, tables whether there is a Table of what is asked for.
func Negotiate(r *http.Request, k *kinds.Kind, collection, tables bool) (Accept, error) {
	if r.Header.Get("Accept") == "" {
		return Accept{}, nil
	}
	isJSON := false
	for _, c := range clauses(r) {
		if !c.isJSON() {
			continue
		}
		isJSON = true
		as, version := c.params["as"], c.params["v"]
		if as != "" && (c.params["g"] != "meta.k8s.io" || version != "v1" && version != "v1beta1") ||
			as == "Table" && !tables {
			continue
		}
		a := Accept{Include: r.URL.Query().Get("includeObject"), Meta: "meta.k8s.io/" + version}
		switch as {
		case "":
		case "Table":
			a.Table = true
			if !slices.Contains([]string{"", "None", "Metadata", "Object"}, a.Include) {
				return a, httpd.BadRequest("Unable to convert to Table as requested: includeObject: Invalid "+
					"value: %q: must be 'Metadata', 'Object', 'None', or empty", a.Include)
			}
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			a.MetadataOnly = true
		default:
			continue
		}
		return a, nil
	}
	all := "application/json, " + yamlType + ", " + ProtobufType
	message := "only the following media types are accepted: " + all
	if !isJSON && !k.Custom { // the answer of the real server's router, which does not handle custom resources
		message = httpd.RouterNotAcceptable + "\n\nAvailable representations: " + all
		if collection {
			message += ", " + streams
		}
	}
	return Accept{}, httpd.NotAcceptable(message)
}
