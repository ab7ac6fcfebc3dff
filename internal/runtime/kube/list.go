package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Query selects the objects of a list or watch. The server does the narrowing, so that other objects never reach the
// client.
type Query struct {
	Resource      Resource
	Namespace     string // "": all
	LabelSelector string // as for kubectl -l: "app=web,tier in (a,b),!canary"
	FieldSelector string // "metadata.name=web"
	// Metadata requests the metadata without the data of a Secret, say; for List alone. An annotation may still have
	// the values that kubectl has applied.
	Metadata bool
	// Selects reports whether LabelSelector selects an object with such labels; nil: no check. An object that is not
	// selected is a DecodeError, except in the DELETED event of a watch.
	Selects func(Labels) bool
}

// Object returns the query for one object by name, also for a watch: the URL of a single object does not stream.
func (q Query) Object(name string) Query {
	q.FieldSelector = "metadata.name=" + name
	return q
}

// String describes the query for an error text: "pods in default".
func (q Query) String() string {
	s := q.Resource.GroupResource()
	if q.Namespace != "" {
		s += " in " + q.Namespace
	}
	return s
}

func (q Query) values() url.Values {
	v := url.Values{}
	if q.LabelSelector != "" {
		v.Set("labelSelector", q.LabelSelector)
	}
	if q.FieldSelector != "" {
		v.Set("fieldSelector", q.FieldSelector)
	}
	return v
}

// request is a list or a watch of the query.
func (q Query) request(values url.Values) (request, error) {
	path, err := q.Resource.Path(q.Namespace, "")
	return request{verb: "list", what: q.String(), method: http.MethodGet, resource: q.Resource, path: path,
		query: values, long: true}, err
}

// partial is the kind of an object that is sent as metadata alone.
const partial = "PartialObjectMetadata"

// acceptPartial requests a list of such objects (API concepts, "Metadata-only fetches").
const acceptPartial = "application/json;as=" + partial + "List;g=meta.k8s.io;v=v1"

// kind is the kind of each object in the answer.
func (q Query) kind() string {
	if q.Metadata {
		return partial
	}
	return q.Resource.Kind
}

// expected has the identity of each object in the answer.
func (q Query) expected() expected {
	e := expected{kind: q.kind(), selects: q.Selects}
	if !q.Resource.ClusterScoped {
		e.namespace = q.Namespace
	}
	for term := range strings.SplitSeq(q.FieldSelector, ",") {
		if name, ok := strings.CutPrefix(term, "metadata.name="); ok {
			e.name = strings.TrimPrefix(name, "=")
		}
	}
	return e
}

// scanner reads the answer in JSON, and keeps at most the given bytes of an object; 0: all declared fields.
func (q Query) scanner(r io.Reader, most int64) *scanner {
	s := newScanner(r)
	s.want, s.most = q.expected(), int(most)
	return s
}

// protoReader reads the answer in protobuf.
func (q Query) protoReader(r io.Reader, plan *protoStruct, most int64) *protoReader {
	p := newProtoReader(r, plan, q.expected())
	p.most = int(most)
	return p
}

// ListOptions say from when and in which pieces to list.
type ListOptions struct {
	// ResourceVersion "" requests the latest state, another version a state not older (or as ResourceVersionMatch
	// says).
	ResourceVersion      string
	ResourceVersionMatch string // "NotOlderThan" or "Exact", only with a resource version
	Limit                int    // objects per page; 0: DefaultPageSize; negative: one page
	// MaxObject is the limit of kept bytes of an object; 0: none. A larger object is skipped without being held, and
	// becomes a DecodeError with ErrTooLarge.
	MaxObject int64
	// Each, if set, is called with each object on arrival, or with its DecodeError, and the result has neither. An
	// error ends the list.
	Each func(obj Object, part Part, bad *DecodeError) error
	// Again, if set, is called before a list is read once more from the beginning.
	Again func()
	// Skim, if not nil, says of which objects only the metadata is to be decoded.
	Skim func(Key) bool
}

// DefaultPageSize keeps a page of 9 KB pods near 5 MB on the server. client-go and kubectl use the same size.
const DefaultPageSize = 500

const (
	// listIdle bounds the silence within a list. An API server gives up on a list after 60 s, and its error comes
	// first.
	listIdle = 75 * time.Second
	// minList is the least part of a page, or of the initial events of a watch, within listIdle, unless the list ends:
	// 16 KiB are two pods. A list of a byte at a time would never end, and hold up the callers.
	minList = 16 << 10
	// thinPages is the limit of pages with fewer than thinPage objects: a page has 500, unless a foreign server makes
	// smaller pages.
	thinPages, thinPage = 100, 10
	// maxContinue caps a continue token, which is a key of the collection in base64.
	maxContinue = 16 << 10
)

// ListResult is a whole collection at one resource version.
type ListResult[T Object] struct {
	Items           []T
	ResourceVersion string         // of the collection: where a watch goes on
	Bad             []*DecodeError // objects that do not decode, missing in Items

	each func(obj Object, part Part, bad *DecodeError) error // of ListOptions
	skim func(Key) bool                                      // the same
	most int64                                               // the same
	read int                                                 // objects received, with failed ones
}

// errInconsistent is a list whose pages are of different resource versions.
var errInconsistent = errors.New("the pages of the list are of different resource versions")

// List reads a whole collection, page by page, decoding item by item from the stream. All pages have the resource
// version of the first page. If the server drops the snapshot between two pages (410 on the continue token) or does
// not know the token (400, after a change of the server), the list is read again in one piece: a partial or mixed
// result is never returned.
func List[T Object](ctx context.Context, c *Client, q Query, o ListOptions) (ListResult[T], error) {
	res, err := listPages[T](ctx, c, q, o)
	if errors.Is(err, errTokenExpired) || errors.Is(err, errInconsistent) {
		o.Limit = -1
		if o.Again != nil {
			o.Again()
		}
		res, err = listPages[T](ctx, c, q, o)
	}
	if err != nil {
		return ListResult[T]{}, fmt.Errorf("list %s: %w", q, err)
	}
	return res, nil
}

// errTokenExpired marks a 410 or 400 about the continue token, not about the requested resource version.
var errTokenExpired = errors.New("the continue token expired")

func listPages[T Object](ctx context.Context, c *Client, q Query, o ListOptions) (ListResult[T], error) {
	all := ListResult[T]{each: o.Each, skim: o.Skim, most: o.MaxObject}
	values := q.values()
	if o.Limit == 0 {
		o.Limit = DefaultPageSize
	}
	if o.Limit > 0 {
		values.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.ResourceVersion != "" {
		values.Set("resourceVersion", o.ResourceVersion)
		if o.ResourceVersionMatch != "" {
			values.Set("resourceVersionMatch", o.ResourceVersionMatch)
		}
	}
	tokens := tokens{}
	for {
		page, err := readPage(ctx, c, q, values, &all)
		if err != nil {
			if values.Has("continue") && (IsGone(err) || IsRefused(err)) {
				err = errors.Join(errTokenExpired, err)
			}
			return all, err
		}
		if page.ResourceVersion == "" {
			return all, errors.New("the list carries no resource version")
		}
		if all.ResourceVersion == "" {
			all.ResourceVersion = page.ResourceVersion
		}
		if page.ResourceVersion != all.ResourceVersion {
			return all, errInconsistent
		}
		if page.Continue == "" {
			return all, nil
		}
		if err := tokens.add(page.Continue, all.read); err != nil {
			return all, err
		}
		// The token stands for the resource version; a server refuses both together (400).
		values.Del("resourceVersion")
		values.Del("resourceVersionMatch")
		values.Set("continue", page.Continue)
	}
}

// tokens are the continue tokens of a list so far: a server could send tokens in circles, or pages without end.
type tokens struct {
	pages int
	mark  string // of an earlier page: replaced at each power of two, to find a circle of any length
}

// add takes the token of a page; read is how many objects have come with all pages.
func (t *tokens) add(token string, read int) error {
	switch t.pages++; {
	case t.pages > thinPages+read/thinPage:
		return fmt.Errorf("%d pages have brought %d objects, and the list goes on", t.pages, read)
	case len(token) > maxContinue:
		return fmt.Errorf("the continue token of a page is longer than %d KiB", maxContinue>>10)
	case token == t.mark:
		return errors.New("a continue token came twice: the list would never end")
	case t.pages&(t.pages-1) == 0:
		t.mark = token
	}
	return nil
}

// one is the short request for at most one object of the query.
func (q Query) one() (request, error) {
	q.LabelSelector = ""
	if !strings.HasPrefix(q.FieldSelector, "metadata.name=") {
		q.FieldSelector = ""
	}
	r, err := q.request(q.values())
	r.long = false
	r.query.Set("limit", "1")
	return r, err
}
