package forms

import (
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
)

// Accept is the form of answer that a client asks for.
type Accept struct {
	Protobuf     bool // only lists and watches
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

// Negotiate reads the Accept header. A client that accepts JSON gets JSON, even if it prefers protobuf. collection
// says whether a list or a watch is asked for.
func Negotiate(r *http.Request, k *kinds.Kind, collection bool) (Accept, error) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if header == "" {
		return Accept{}, nil
	}
	isJSON := false
	for part := range strings.SplitSeq(header, ",") {
		mt, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil || mt != "application/json" && mt != "*/*" && mt != "application/*" {
			continue
		}
		isJSON = true
		as, version := params["as"], params["v"]
		if as != "" && (params["g"] != "meta.k8s.io" || version != "v1" && version != "v1beta1") {
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
