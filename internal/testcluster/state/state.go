// Package state copies what controllers see of a cluster, keeps the copy in a file, and puts it into an embedded API
// server.
//
// A copy has definitions, custom resources, their children, the pods and what makes them, and nodes. It has no Secrets
// and ConfigMaps but those that a hook controller declares. A file is a bug report that runs on a laptop: it is
// redacted unless the user asks otherwise (redact.go), and it may come from a stranger (file.go). What runs on a copy
// is package rehearse's.
//
// A cluster of skiff-dev that outlives its process has such a file, too: with all objects of its server, unredacted
// (keep.go).
//
// It works on its caller's goroutine, and is on no event path.
package state

import (
	"fmt"
	"maps"
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/simulate"
)

// MaxBytes is how much JSON a copy may have: 30,000 pods. A rehearsal takes up to twelve times as much memory (31,740
// pods of 8 KB: 3.1 GB), and a laptop has that.
const MaxBytes = 256 << 20

// MaxObjects is how many objects a copy may have: small ones, too, take some KB each in a server.
const MaxObjects = 100_000

// State is the copy of a cluster.
type State struct {
	Server  string     // its version
	Plain   bool       // no value was redacted
	Objects []kube.Raw // as the cluster served them; definitions first
	Notes   []string   // what could not be copied, for the user

	bytes int
}

// narrow says how to make a copy smaller.
const narrow = "copy fewer namespaces, with --watch-namespaces, or fewer controllers, with --controllers"

// add adds an object.
func (s *State) add(o map[string]any) error {
	text, err := patch.Encode(o)
	if err != nil {
		return err
	}
	if s.bytes += len(text); s.bytes > MaxBytes {
		return fmt.Errorf("the copy is larger than %d MiB: %s", MaxBytes>>20, narrow)
	}
	if len(s.Objects) == MaxObjects {
		return fmt.Errorf("the copy has more than %d objects: %s", MaxObjects, narrow)
	}
	s.Objects = append(s.Objects, text)
	return nil
}

// Import puts the copy into a new server, and returns what a simulation on it has to know.
func (s *State) Import(server *apiserver.Server) (o simulate.Options, err error) {
	o.Copied = simulate.Copied{Pods: map[string]bool{}, Owners: map[string]bool{}}
	copied, nodes := map[string]bool{}, map[string]bool{}
	for i, text := range s.Objects {
		body, err := decoded(text)
		if err != nil {
			return o, fmt.Errorf("object %d: %w", i+1, err)
		}
		if err := server.Import(body); err != nil { // which has checked the types of the fields
			return o, err
		}
		uid := obj.String(body, "metadata", "uid")
		copied[uid] = true
		for _, owner := range obj.Maps(body, "metadata", "ownerReferences") {
			o.Copied.Owners[obj.String(owner, "uid")] = true
		}
		switch body["kind"] {
		case "Node":
			nodes[obj.String(body, "metadata", "name")] = true
		case "Pod":
			o.Copied.Pods[uid] = runs(body)
			if node := obj.String(body, "spec", "nodeName"); node != "" {
				nodes[node] = true
			}
		}
	}
	maps.DeleteFunc(o.Copied.Owners, func(uid string, _ bool) bool { return copied[uid] })
	o.Nodes = slices.Sorted(maps.Keys(nodes))
	return o, nil
}

// runs says whether a kubelet has begun with a pod: containers that only wait for their turn say nothing yet.
func runs(pod map[string]any) bool {
	return slices.ContainsFunc(obj.Maps(pod, "status", "containerStatuses"), func(c map[string]any) bool {
		reason := obj.String(c, "state", "waiting", "reason")
		return reason != "ContainerCreating" && reason != "PodInitializing"
	})
}
