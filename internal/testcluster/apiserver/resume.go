package apiserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// Export is the stored content of a server at one moment, for Resume. Later writes do not change it.
type Export struct {
	Revision int64

	objects []exported // definitions first
}

type exported struct {
	resource kube.Resource
	object   *store.Object
}

// Content returns what is stored.
func Content(s *Server) (*Export, error) {
	sn := s.store.Snapshot()
	out := &Export{Revision: sn.Revision()}
	definitions := kinds.CRDs.GroupResource()
	tables := slices.DeleteFunc(sn.Tables(), func(name string) bool { return name == definitions })
	for _, table := range append([]string{definitions}, tables...) {
		for _, o := range sn.Objects(table) {
			r, ok := storedAs(s.registry, table, o)
			if !ok {
				return nil, fmt.Errorf("export %s: the server has no kind for it", table)
			}
			out.objects = append(out.objects, exported{r, o})
		}
	}
	return out, nil
}

// storedAs returns the resource in whose form an object is stored.
func storedAs(g *registry, table string, o *store.Object) (kube.Resource, bool) {
	if sh, ok := o.Shape.(*shape); ok {
		return sh.Resource, true
	}
	k := g.first(func(k *kinds.Kind) bool { return k.TableName() == table && k.StoredAs == "" })
	if k == nil {
		return kube.Resource{}, false
	}
	return k.Resource, true
}

// Len returns the number of objects.
func (e *Export) Len() int { return len(e.objects) }

// WriteTo writes each object as a line of JSON with apiVersion and kind.
func (e *Export) WriteTo(to io.Writer) (n int64, err error) {
	w := bufio.NewWriterSize(to, 1<<16)
	var line []byte
	for _, of := range e.objects {
		line = append(forms.AppendType(line[:0], of.resource), ',')
		line = append(append(line, of.object.JSON()[1:]...), '\n')
		w.Write(line) // the error is Flush's
		n += int64(len(line))
	}
	return n, w.Flush()
}

// Resume replaces the content of a new server by that of an Export, as kube-apiserver finds it in etcd: objects keep
// uid and resourceVersion, writes continue after revision, and there is no history, so that a watch from before gets
// 410. Objects that each cluster has and that are missing are made. Each text is as patch.Encode writes it. An error
// is an *ObjectError, and leaves the server unchanged.
func Resume(s *Server, objects []kube.Raw, revision int64) error {
	sn := store.NewSnapshot(revision)
	custom := map[[2]string]kube.Resource{} // by group and kind
	for i, text := range objects {
		if err := resumeOne(s, sn, custom, text); err != nil {
			return &ObjectError{Index: i, Err: err}
		}
	}
	s.Restore(sn)
	s.seed("")
	s.serveCRDs() // now: the first request may be for one of their kinds
	return nil
}

// ObjectError says which object of an Export cannot be used.
type ObjectError struct {
	Index int
	Err   error
}

// Error says which, and why.
func (e *ObjectError) Error() string { return fmt.Sprintf("object %d: %v", e.Index+1, e.Err) }

// Unwrap returns why.
func (e *ObjectError) Unwrap() error { return e.Err }

func resumeOne(s *Server, sn *store.Snapshot, custom map[[2]string]kube.Resource, text kube.Raw) error {
	v, err := patch.Decode(text)
	if err != nil {
		return err
	}
	o, _ := v.(map[string]any)
	group, version, grouped := strings.Cut(obj.String(o, "apiVersion"), "/")
	if !grouped {
		group, version = "", group
	}
	k := s.registry.ofKind(group, version, obj.String(o, "kind"))
	if r, ok := custom[[2]string{group, obj.String(o, "kind")}]; ok {
		r.Version = version
		k = &kinds.Kind{Resource: r, Shape: &shape{family: &family{}, Resource: r}}
	}
	if k == nil || k.StoredAs != "" {
		return fmt.Errorf("this server stores no %s of %s", kube.Text(obj.String(o, "kind")),
			kube.Text(obj.String(o, "apiVersion")))
	}
	key, at, err := identityOf(k, o)
	if err == nil && at > sn.Revision() {
		err = fmt.Errorf("metadata.resourceVersion %d is after that of the whole, %d", at, sn.Revision())
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kube.Text(k.Kind), kube.Text(kube.Key(key).String()), err)
	}
	if k.Resource == kinds.CRDs {
		group, names := obj.String(o, "spec", "group"), obj.Map(o, "status", "acceptedNames")
		custom[[2]string{group, obj.String(names, "kind")}] = kube.Resource{Group: group,
			Plural: obj.String(names, "plural"), Kind: obj.String(names, "kind"),
			ClusterScoped: obj.String(o, "spec", "scope") == "Cluster"}
	}
	value := forms.Untyped(patch.DecodeStored(text))
	if !sn.Add(k.TableName(), store.NewObject(key, at, value, k.Shape)) {
		return fmt.Errorf("%s %s is there twice", kube.Text(k.Kind), kube.Text(kube.Key(key).String()))
	}
	return nil
}

// identityOf checks the types of an object and returns its key and revision.
func identityOf(k *kinds.Kind, o map[string]any) (key store.Key, revision int64, err error) {
	if err := checkFieldTypes(k, o); err != nil {
		return key, 0, err
	}
	key = store.Key{Namespace: obj.String(o, "metadata", "namespace"), Name: obj.String(o, "metadata", "name")}
	revision, err = strconv.ParseInt(obj.String(o, "metadata", "resourceVersion"), 10, 64)
	switch {
	case key.Name == "" || obj.String(o, "metadata", "uid") == "":
		return key, 0, errors.New("want a metadata.name and a metadata.uid")
	case k.ClusterScoped != (key.Namespace == ""):
		return key, 0, fmt.Errorf("metadata.namespace %q: want one in namespaced objects only", key.Namespace)
	case err != nil || revision < 1:
		return key, 0, errors.New("metadata.resourceVersion is not a number from 1 on")
	}
	return key, revision, nil
}
