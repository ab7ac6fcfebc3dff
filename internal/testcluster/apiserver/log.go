package apiserver

import (
	"net/http"
	"strconv"
	"strings"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/store"
)

// log answers GET pods/NAME/log with the text of an annotation, as nothing runs that could write one.
func (s *Server) log(r *request) error {
	o := s.store.Get(r.kind.TableName(), store.Key(r.key()))
	if o == nil {
		return httpd.NotFound(r.kind.Resource, r.name)
	}
	text, ok, why := kinds.Log(o.Value(), r.query.Get("container"))
	switch {
	case why != "":
		return httpd.BadRequest("%s", why)
	case !ok:
		return httpd.NotImplemented("nothing runs in this pod: skiff's embedded API server answers with the "+
			"annotation "+kinds.LogAnnotation+" of the pod, if there is one", httpd.NoDetails)
	}
	if tail := r.query.Get("tailLines"); tail != "" {
		n, err := strconv.ParseUint(tail, 10, 31)
		if err != nil {
			return httpd.BadRequest("tailLines: %q is no number of lines", tail)
		}
		text = lastLines(text, int(n))
	}
	if limit := r.query.Get("limitBytes"); limit != "" {
		n, err := strconv.ParseUint(limit, 10, 31)
		if err != nil || n == 0 {
			return httpd.BadRequest("limitBytes: %q is no number of bytes", limit)
		}
		text = text[:min(len(text), int(n))]
	}
	r.writer.Header().Set("Content-Type", "text/plain")
	httpd.Bytes(r.writer, http.StatusOK, []byte(text))
	return nil
}

// lastLines returns the last n lines of a text whose lines end with a newline.
func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:max(0, len(lines)-1)] // what follows the last newline is nothing
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
