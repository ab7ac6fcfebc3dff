package apiserver

import (
	"maps"
	"slices"
	"sync"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
)

// registry has the served kinds. Those of CRDs change.
type registry struct {
	mu    sync.RWMutex                    // guards what follows
	kinds []*kinds.Kind                   // the built-in ones first; replaced as a whole
	crds  map[string]int64                // by table: the revision of the served CRD
	ends  map[kube.Resource]chan struct{} // closed when a custom kind is no longer served
}

// served returns the built-in kinds of a version without those that are named: GROUP/VERSION, or
// GROUP/VERSION/RESOURCE.
func served(set features.Set, without []string) []*kinds.Kind {
	return slices.DeleteFunc(kinds.Builtin(set), func(k *kinds.Kind) bool {
		return slices.Contains(without, k.APIVersion()) || slices.Contains(without, k.APIVersion()+"/"+k.Plural)
	})
}

// Serves reports whether a version serves a built-in GROUP/VERSION or GROUP/VERSION/RESOURCE.
func Serves(set features.Set, name string) bool {
	return len(served(set, []string{name})) < len(served(set, nil))
}

func (g *registry) find(group, version, plural string) *kinds.Kind {
	return g.first(func(k *kinds.Kind) bool { return k.Plural == plural && k.Group == group && k.Version == version })
}

func (g *registry) ofKind(group, version, kind string) *kinds.Kind {
	return g.first(func(k *kinds.Kind) bool { return k.Kind == kind && k.Group == group && k.Version == version })
}

// first returns the first kind that is the one; nil if there is none.
func (g *registry) first(is func(*kinds.Kind) bool) *kinds.Kind {
	all := g.all()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}

// builtinGroup reports whether a group is built in: for unknown resources of those a 404 is a Status, else it is text.
func (g *registry) builtinGroup(group string) bool {
	return g.first(func(k *kinds.Kind) bool { return k.Group == group && !k.Custom }) != nil
}

// all returns the served kinds.
func (g *registry) all() []*kinds.Kind {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.kinds
}

// replace replaces the kinds of a CRD by those of the given revision; revision 0 removes them.
func (g *registry) replace(table string, revision int64, ks []*kinds.Kind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if revision == 0 {
		delete(g.crds, table)
	} else {
		g.crds[table] = revision
	}
	others := slices.DeleteFunc(slices.Clone(g.kinds),
		func(k *kinds.Kind) bool { return k.Custom && k.TableName() == table })
	g.kinds = append(others, ks...)
	for r, end := range g.ends {
		if r.GroupResource() == table && !slices.ContainsFunc(ks,
			func(k *kinds.Kind) bool { return k.Resource == r }) {
			close(end)
			delete(g.ends, r)
		}
	}
}

// end returns a channel that is closed when a custom kind is no longer served, which ends its watches. It is nil for
// built-in kinds.
func (g *registry) end(k *kinds.Kind) <-chan struct{} {
	if !k.Custom {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ends[k.Resource] == nil {
		g.ends[k.Resource] = make(chan struct{})
	}
	return g.ends[k.Resource]
}

// served returns the kinds that a CRD serves, and the revision of the CRD, 0 if it is not served.
func (g *registry) served(table string) (out []*kinds.Kind, revision int64) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, k := range g.kinds {
		if k.Custom && k.TableName() == table {
			out = append(out, k)
		}
	}
	return out, g.crds[table]
}

// customTables returns the tables of the known CRDs.
func (g *registry) customTables() []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Collect(maps.Keys(g.crds))
}
