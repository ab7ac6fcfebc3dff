package apiserver

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// prefersProtobuf reports whether a request is answered in protobuf, with something of a kind, or an error for nil. An
// answer that a fault rewrites is in JSON, because that is what the fault expects.
func prefersProtobuf(r *request, k *kinds.Kind) bool {
	return forms.PrefersProtobuf(r.Request, k) && !faults.Rewrites(r.Context())
}

// posts reports whether a request is a POST of what is not stored.
func posts(r *request) bool {
	return r.kind.Review != nil || r.sub != "" && r.verb == "create" && !kinds.Connects(r.sub)
}

// get answers GET of one object. It waits until the server has reached a requested resourceVersion.
func (s *Server) get(r *request) error {
	if v := r.query.Get("resourceVersion"); v != "" && v != "0" {
		n, err := revisionOf(v)
		if err != nil {
			return err
		}
		if err := s.waitFor(r.Context(), n); err != nil {
			return err
		}
	}
	o, err := s.find(r)
	if err != nil {
		return err
	}
	if o == nil {
		return httpd.NotFound(r.kind.Resource, r.name)
	}
	return s.respond(r, http.StatusOK, o)
}

// respond writes one object in the requested form.
func (s *Server) respond(r *request, code int, o *store.Object) error {
	if r.warner == nil && len(r.warnings) > 0 {
		r.warner = httpd.NewWarner(r.writer)
	}
	for _, text := range r.warnings {
		r.warner.Warn(text)
	}
	o, err := s.convertedOne(r.Context(), r.kind, o)
	if err != nil {
		return err
	}
	if r.sub == "scale" {
		scale, err := scaleOf(r.kind, o.Value())
		if err != nil {
			return err
		}
		forms.Write(r.writer, code, r.accept, r.sent.Resource, scale)
		return nil
	}
	body, err := encode(r.kind, o, r.accept, true)
	if err != nil {
		return err
	}
	forms.SetType(r.writer, r.accept)
	httpd.Bytes(r.writer, code, body)
	return nil
}

// encode returns an object in the form of an answer, or of an event of a watch. columns is for a Table: whether it
// defines them.
func encode(k *kinds.Kind, o *store.Object, a forms.Accept, columns bool) ([]byte, error) {
	switch {
	case a.MetadataOnly:
		return forms.EncodePartial(forms.Partial(o.Value()["metadata"], a), a), nil
	case a.Protobuf:
		return forms.ProtobufObject(k, o)
	case a.Table:
		return httpd.Encode(forms.Table(k, []*store.Object{o}, a, o.Revision, columns)), nil
	}
	return forms.Encode(k, o)
}

func (s *Server) list(r *request) error {
	o, err := s.parseListOptions(r)
	if err != nil {
		return err
	}
	objects, meta, err := s.readPage(o)
	if err != nil {
		return err
	}
	return writePage(r, objects, meta)
}

// writePage answers with a page of a list.
func writePage(r *request, objects []*store.Object, meta map[string]any) error {
	if meta["continue"] == nil && r.kind.Custom && !r.accept.Table && !r.accept.MetadataOnly {
		meta["continue"] = "" // lists of custom resources always have it
	}
	return writeList(r.writer, r.kind, r.accept, meta, objects)
}

// writeList answers with a list. The items are written one by one, because the whole can be many times the memory
// that the rest of the server uses.
func writeList(w http.ResponseWriter, k *kinds.Kind, a forms.Accept, meta map[string]any,
	objects []*store.Object) error {
	switch {
	case a.MetadataOnly:
		list := forms.Partial(meta, a)
		list["kind"] = "PartialObjectMetadataList"
		list["items"] = obj.Each(objects, func(o *store.Object) any { return forms.Partial(o.Value()["metadata"], a) })
		forms.SetType(w, a)
		httpd.Bytes(w, http.StatusOK, forms.EncodePartial(list, a))
		return nil
	case a.Protobuf:
		return forms.WriteProtobufList(w, k, meta, objects)
	case a.Table:
		t := forms.Table(k, objects, a, 0, true)
		t["metadata"] = meta
		httpd.JSON(w, http.StatusOK, t)
		return nil
	}
	return writeItems(w, k, meta, objects)
}

// writeItems answers with a list of whole objects. Those of the stored form are encoded while they are written.
func writeItems(w http.ResponseWriter, k *kinds.Kind, meta map[string]any, objects []*store.Object) error {
	head := httpd.Encode(map[string]any{"kind": k.List(), "apiVersion": k.APIVersion(), "metadata": meta})
	head = append(head[:len(head)-1], `,"items":[`...)
	length := len(head) + max(0, len(objects)-1) + len("]}")
	if k.Custom { // only these items have kind and apiVersion
		length += len(objects) * len(forms.AppendType(nil, k.Resource))
	}
	views := make([][]byte, len(objects))
	for i, o := range objects {
		var err error
		if views[i], err = forms.ViewOf(k, o); err != nil {
			return err
		}
		if length += len(views[i]); views[i] == nil {
			length += o.Size()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(http.StatusOK)
	w.Write(head) // an error means that the client is gone
	var buffer []byte
	for i, o := range objects {
		if buffer = buffer[:0]; i > 0 {
			buffer = append(buffer, ',')
		}
		buffer = forms.AppendObject(buffer, k, o, views[i], k.Custom)
		w.Write(buffer)
	}
	w.Write([]byte("]}"))
	return nil
}

// readPage returns the page of a list that is asked for, and the metadata of the list.
func (s *Server) readPage(o *listOptions) (page []*store.Object, meta map[string]any, err error) {
	at, start := int64(0), ""
	switch {
	case o.token != "":
		t, err := s.openToken(o)
		if err != nil {
			return nil, nil, err
		}
		at, start = max(t.Revision, 0), t.Start // a negative one is newestState
	case o.revision > 0:
		if err := s.waitFor(o.Context(), o.revision); err != nil {
			return nil, nil, err
		}
		at = s.cached(o.Context())
		if o.match == "Exact" || o.match == "" && o.limit > 0 {
			at = o.revision // with a limit, a resourceVersion alone means exactly that one
		}
	case o.version == "0":
		at = s.cached(o.Context())
	}
	all, cursor, err := s.store.ListAndWatch(o.kind.TableName(), o.namespace, at)
	switch {
	case errors.Is(err, store.ErrCompacted) && o.token != "":
		return nil, nil, s.expiredToken(start)
	case errors.Is(err, store.ErrCompacted):
		return nil, nil, httpd.Expired("The resourceVersion for the provided list is too old.")
	case err != nil:
		return nil, nil, err
	}
	if o.selective() { // by labels and fields of the version that is asked for
		if all, err = s.converted(o.Context(), o.kind, all); err != nil {
			return nil, nil, err
		}
	}
	meta = map[string]any{"resourceVersion": strconv.FormatInt(cursor.Revision(), 10)}
	for i, ob := range all {
		if o.place(ob.Key) < start {
			continue
		}
		if o.limit > 0 && int64(len(page)) == o.limit {
			meta["continue"] = seal(cursor.Revision(), o.place(page[len(page)-1].Key)+"\x00")
			if !o.selective() {
				meta["remainingItemCount"] = int64(len(all) - i)
			}
			break // as on the real server, also where nothing that follows is selected
		}
		if o.selects(ob) {
			page = append(page, ob)
		}
	}
	page, err = s.converted(o.Context(), o.kind, page)
	return page, meta, err
}

// readComponents answers for the components of a control plane, in whose place this server is: all are healthy.
func (s *Server) readComponents(r *request) error {
	all := obj.Each([]string{"scheduler", "controller-manager", "etcd-0"}, func(name string) *store.Object {
		return store.NewObject(store.Key{Name: name}, 0, map[string]any{"metadata": map[string]any{"name": name},
			"conditions": []any{map[string]any{"type": "Healthy", "status": "True", "message": "ok"}}}, nil)
	})
	if r.verb == "list" {
		o, err := s.parseListOptions(r)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(c *store.Object) bool { return !o.selects(c) })
		return writeList(r.writer, r.kind, r.accept, map[string]any{}, all)
	}
	i := slices.IndexFunc(all, func(c *store.Object) bool { return c.Name == r.name })
	if i < 0 {
		of := r.kind.Resource
		of.Plural = "componentstatus" // in the real server's words
		return httpd.NotFound(of, r.name)
	}
	return s.respond(r, http.StatusOK, all[i])
}
