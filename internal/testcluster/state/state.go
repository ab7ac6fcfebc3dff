// Package state copies what controllers see of a cluster, keeps the copy in a file, and puts it into an embedded API
// server.
//
// A copy has definitions, custom resources, their children, the pods and what makes them, and nodes. It has no Secrets
// and ConfigMaps but those that a hook controller declares. A file is a bug report that runs on a laptop: it is
// redacted unless the user asks otherwise (redact.go), and it may come from a stranger (file.go). What runs on a copy
// is package rehearse's.
//
// It works on its caller's goroutine, and is on no event path.
package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/simulate"
)

// MaxBytes is how much JSON a copy may have: 30,000 pods. A rehearsal takes eight times as much memory (82 MB of pods:
// 0.7 GB), and a laptop has that.
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

// head is what is read of every object.
type head struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		OwnerReferences []struct {
			UID string `json:"uid"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
}

// pod is what is read of a pod besides.
type pod struct {
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		ContainerStatuses []struct {
			State struct {
				Waiting *struct {
					Reason string `json:"reason"`
				} `json:"waiting"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// runs says whether a kubelet has begun with a pod: containers that only wait for their turn say nothing yet.
func (p *pod) runs() bool {
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w == nil || w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return true
		}
	}
	return false
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
		if err := server.Import(body); err != nil {
			return o, err
		}
		var of head
		if err := read(text, &of); err != nil {
			return o, fmt.Errorf("object %d: %w", i+1, err)
		}
		copied[of.Metadata.UID] = true
		for _, owner := range of.Metadata.OwnerReferences {
			o.Copied.Owners[owner.UID] = true
		}
		switch of.Kind {
		case "Node":
			nodes[of.Metadata.Name] = true
		case "Pod":
			var p pod
			if err := read(text, &p); err != nil {
				return o, fmt.Errorf("object %d: %w", i+1, err)
			}
			o.Copied.Pods[of.Metadata.UID] = p.runs()
			if p.Spec.NodeName != "" {
				nodes[p.Spec.NodeName] = true
			}
		}
	}
	maps.DeleteFunc(o.Copied.Owners, func(uid string, _ bool) bool { return copied[uid] })
	o.Nodes = slices.Sorted(maps.Keys(nodes))
	return o, nil
}

// errNothing is a copy without an object.
var errNothing = errors.New("there is nothing to copy: the cluster has none of the custom resource definitions of " +
	"the controllers; see skiff crds install")
