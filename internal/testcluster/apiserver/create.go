package apiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"unicode"

	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

func (s *Server) create(r *request) error {
	o, err := readObject(r)
	if err != nil {
		return err
	}
	return s.answerWrite(&write{request: r,
		make: func(*store.Object) (map[string]any, error) { return r.body(o).(map[string]any), nil }})
}

func (s *Server) answerWrite(w *write) error {
	if err := s.write(w); err != nil {
		return err
	}
	if w.cur == nil {
		return s.respond(w.request, http.StatusCreated, w.stored)
	}
	return s.respond(w.request, http.StatusOK, w.stored)
}

// optionKinds are the kinds of the parameters of writes, by verb.
var optionKinds = map[string]string{"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}

// maxManager is how long the name of a field manager may be.
const maxManager = 128

// checkOptions refuses parameters that a write cannot have.
func checkOptions(r *request, apply bool) error {
	var causes []kinds.Cause
	manager, mode, dryRun := r.query.Get("fieldManager"), r.query.Get("fieldValidation"), r.query["dryRun"]
	switch {
	case apply && manager == "":
		causes = append(causes, obj.Required("fieldManager", "is required for apply patch"))
	case r.verb == "patch" && !apply && r.query.Has("force"):
		causes = append(causes, obj.Forbidden("force", "may not be specified for non-apply patch"))
	}
	causes = append(causes, managerCauses("fieldManager", manager)...)
	if slices.ContainsFunc(dryRun, func(v string) bool { return v != "All" }) {
		causes = append(causes, obj.NotSupported("dryRun", obj.Anys(dryRun), "All"))
	}
	if modes := []string{"", "Ignore", "Strict", "Warn"}; !slices.Contains(modes, mode) {
		causes = append(causes, obj.NotSupported("fieldValidation", mode, modes...))
	}
	return httpd.InvalidOptions(optionKinds[r.verb], causes...)
}

// managerCauses says what is wrong with the name of a field manager.
func managerCauses(field, manager string) (causes []kinds.Cause) {
	if len(manager) > maxManager {
		causes = append(causes, obj.TooLong(field, maxManager))
	}
	for i, c := range manager {
		if !unicode.IsPrint(c) {
			causes = append(causes, obj.Invalid(field, manager,
				fmt.Sprintf("invalid character %#U (at position %d)", c, i)))
		}
	}
	return causes
}

// prepareNew makes a sent object one that could be stored, and notes who owns its fields.
func (s *Server) prepareNew(tx *store.Tx, w *write) error {
	k := w.kind
	if k.Refused != "" {
		return httpd.NotImplemented("an object of kind "+k.Kind+" would have no effect: skiff's embedded API server "+
			"has no "+k.Refused, httpd.About(k.Resource, ""))
	}
	w.next = k.ToStore(w.next)
	o, meta := w.next, obj.Map(w.next, "metadata")
	if err := cmp.Or(w.setNamespace(meta), namespaceOpen(tx, w.request, obj.String(meta, "name")),
		s.checkGrant(tx, w.request, o, nil)); err != nil {
		return err
	}
	if w.applied {
		delete(meta, "resourceVersion") // an apply that creates has no version to compare with
	}
	base := obj.String(meta, "generateName")
	if w.generated = obj.String(meta, "name") == "" && base != ""; w.generated {
		name, ok := s.generateName(base, func(n string) bool {
			return tx.Get(k.TableName(), store.Key{Namespace: w.namespace, Name: n}) != nil
		})
		if meta["name"] = name; !ok {
			return httpd.AlreadyExists(k.Resource, name, false)
		}
	}
	meta["uid"], meta["creationTimestamp"] = obj.NewUID(), timestamp(clock(w.Request))
	dropUnset(meta)
	if k.Generation != nil {
		meta["generation"] = int64(1)
	}
	if k.Author {
		obj.Set(o, w.user.Name, "spec", "username")
		obj.Set(o, obj.Anys(w.user.Groups), "spec", "groups")
		obj.Remove(o, "spec", "extra")
		if obj.Remove(o, "spec", "uid"); w.user.UID != "" {
			obj.Set(o, w.user.UID, "spec", "uid")
		}
	}
	complete(k, o, nil)
	if !w.applied {
		recordOwner(w.request, managerOf(w.request), o, nil)
	}
	f, finalizers := protection[k.TableName()], obj.Slice(meta, "finalizers")
	if f != "" && s.opts.ProtectStorage && !slices.Contains(finalizers, any(f)) {
		meta["finalizers"] = append(finalizers, f) // which no field manager owns
	}
	w.fillLimits(tx)
	if !slices.Contains(s.opts.WithoutPlugins, defaultStorageClass) {
		w.fillClass(tx)
	}
	return nil
}

// protection has the finalizers of objects that must not go while they are in use, by tables.
var protection = map[string]string{
	"persistentvolumeclaims":                 "kubernetes.io/pvc-protection",
	"persistentvolumes":                      "kubernetes.io/pv-protection",
	"volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}

// dropUnset drops from the metadata of a new object what only the server sets, and not at a creation.
func dropUnset(meta map[string]any) {
	for _, f := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"} {
		delete(meta, f)
	}
}

const otherNamespace = "the namespace of the provided object does not match the namespace sent on the request"

// otherName refuses an object of another name than that of the URL.
func (r *request) otherName(name string) error {
	return httpd.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", name, r.name)
}

func (r *request) noName() error {
	return httpd.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided",
		r.name)
}

// setNamespace gives an object the namespace of the request, and refuses one of another.
func (r *request) setNamespace(meta map[string]any) error {
	if ns := obj.String(meta, "namespace"); ns != "" && ns != r.namespace {
		if !r.kind.ClusterScoped {
			return httpd.BadRequest(otherNamespace)
		}
	}
	if meta["namespace"] = r.namespace; r.kind.ClusterScoped {
		delete(meta, "namespace")
	}
	return nil
}

// complete makes a sent object complete: it drops the fields that Go's types drop, and adds those that they show, the
// initial status and the defaults.
func complete(k *kinds.Kind, next, cur map[string]any) {
	if k.Stored != nil {
		k.Stored.Drop(next)
	} else {
		schema.ObjectMeta().Drop(obj.Map(next, "metadata"))
	}
	if k.Status && cur == nil {
		delete(next, "status")
		if k.NewStatus != nil {
			next["status"] = k.NewStatus(next)
		}
	}
	if k.Defaults != nil {
		k.Defaults(next)
	}
	if k.Stored != nil {
		k.Stored.Fill(next)
	}
}

// validate allocates values such as cluster IPs, which no field manager owns, and validates the object.
func (s *Server) validate(tx *store.Tx, k *kinds.Kind, next, cur map[string]any) error {
	causes := metadataCauses(k, next, cur == nil)
	if k.Validate != nil {
		causes = append(causes, k.Validate(next, cur)...)
	}
	if k.Allocate != nil && len(causes) == 0 {
		var own store.Key // of a new object there is none: another may have its name
		if cur != nil {
			own = store.Key{Namespace: obj.String(next, "metadata", "namespace"),
				Name: obj.String(next, "metadata", "name")}
		}
		taken := func(text string) bool { return tx.Taken(k.TableName(), own, text) }
		var err error
		if causes, err = k.Allocate(next, taken, s.randN); err != nil {
			return httpd.InternalError("%v", err)
		}
	}
	about := httpd.AboutKind(k.Resource, obj.String(next, "metadata", "name"))
	if k.TableName() == "events" {
		about.Group = "" // that of the real server's internal type
	}
	return httpd.Invalid(about, causes...)
}

const (
	// nameMax, suffixLen and nameTries are those of the real name generator: a base of at most 58 characters, 5 random
	// ones, 8 attempts (KEP-4420).
	nameMax   = 63
	suffixLen = 5
	nameTries = 8
	// alphabet has no vowels, so that no words come out, and no characters that look alike.
	alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// generateName appends random characters to base until the name is not in use.
func (s *Server) generateName(base string, taken func(string) bool) (name string, ok bool) {
	if len(base) > nameMax-suffixLen {
		base = base[:nameMax-suffixLen]
	}
	for range nameTries {
		b := []byte(base)
		for range suffixLen {
			b = append(b, alphabet[s.randN(len(alphabet))])
		}
		if name = string(b); !taken(name) {
			return name, true
		}
	}
	return name, false
}

// randN returns a number below n that follows from Options.Seed.
func (s *Server) randN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}
