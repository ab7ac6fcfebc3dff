package apiserver

import (
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/store"
)

// Snapshot returns the state of the store, for Restore.
func (s *Server) Snapshot() *store.Snapshot { return s.store.Snapshot() }

// Restore returns to a snapshot, as a cluster does that is restored from a backup of etcd: resourceVersions go back,
// watches end, and a watch from a later version is accepted and silent until that version is reached again.
func (s *Server) Restore(sn *store.Snapshot) {
	s.store.Restore(sn)
	s.mu.Lock()
	close(s.restored)
	s.restored = make(chan struct{})
	s.mu.Unlock()
	s.wakeHousekeeper() // the CRDs may be others
}

// untilRestored returns a channel that is closed by the next Restore.
func (s *Server) untilRestored() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restored
}

// Compact removes all history: watches from older revisions, and all continue tokens, get 410.
func (s *Server) Compact() { s.store.Compact() }

// ExpireContinueTokens expires all continue tokens issued so far, without removing history.
func (s *Server) ExpireContinueTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = time.Now()
}

func (s *Server) tokenExpired(issued time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !issued.After(s.expired) || time.Since(issued) > historyAge
}

// Revision returns the revision of the last write.
func (s *Server) Revision() int64 { return s.store.Revision() }

// Get returns a copy of a stored object in the form of a GET, nil if it does not exist: for assertions in tests.
func (s *Server) Get(r kube.Resource, k kube.Key) map[string]any {
	if kind := s.registry.find(r.Group, r.Version, r.Plural); kind != nil {
		if o := s.store.Get(kind.TableName(), store.Key(k)); o != nil {
			return forms.Decoded(forms.ServedCopy(kind, o))
		}
	}
	return nil
}

// List returns copies of all stored objects of a resource in a namespace, or in all (""), in key order.
func (s *Server) List(r kube.Resource, namespace string) []map[string]any {
	var out []map[string]any
	if kind := s.registry.find(r.Group, r.Version, r.Plural); kind != nil {
		for _, o := range s.store.List(kind.TableName(), namespace) {
			out = append(out, forms.Decoded(forms.ServedCopy(kind, o)))
		}
	}
	return out
}
