package rehearse

import (
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// cluster stands for the owner of what the simulation did.
const cluster = "(cluster)"

var (
	pods        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	replicaSets = kube.Resource{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet"}
)

// rollout is the new pods of one owner.
type rollout struct {
	line
	pods, ready int
}

// rollouts has a line for each owner of pods that the simulation brought forward: how many of the pods that are new,
// and still there, have become ready. It has the time of the last of them.
func (r *rehearsal) rollouts() (out []line) {
	made, ready := map[string]bool{}, map[string]time.Time{} // by uid
	for _, w := range r.log.writes {
		if w.Resource != pods || w.After == nil {
			continue
		}
		uid := obj.String(w.After, "metadata", "uid")
		_, before := ready[uid]
		switch {
		case w.Before == nil:
			made[uid] = true
		case !before && kinds.Condition(w.After, "Ready")["status"] == "True" && w.UserAgent == apiserver.Simulation:
			ready[uid] = w.Time
		}
	}
	all := map[string]*rollout{}
	var order []*rollout
	for _, o := range r.server.List(pods, "") {
		uid := obj.String(o, "metadata", "uid")
		if !made[uid] || obj.Get(o, "metadata", "deletionTimestamp") != nil {
			continue
		}
		owner := r.ownerOf(o)
		of := all[owner]
		if of == nil {
			of = &rollout{line: line{owner: cluster}}
			all[owner], order = of, append(order, of)
		}
		of.pods++
		if at, ok := ready[uid]; ok {
			of.ready++
			of.at = max(of.at, at.Sub(r.log.began))
		}
		of.text = fmt.Sprintf("%s: %d of %d new pods ready", owner, of.ready, of.pods)
	}
	for _, of := range order {
		out = append(out, of.line)
	}
	return out
}

// ownerOf names what a pod belongs to: the Deployment, where a ReplicaSet controls it.
func (r *rehearsal) ownerOf(o map[string]any) string {
	k := keyOf(o)
	kind, name := controllerOf(o)
	if kind == replicaSets.Kind {
		if set := r.server.Get(replicaSets, kube.Key{Namespace: k.Namespace, Name: name}); set != nil {
			if above, its := controllerOf(set); above != "" {
				kind, name = above, its
			}
		}
	}
	if kind == "" {
		kind, name = "Pod", k.Name
	}
	return kind + " " + kube.Key{Namespace: k.Namespace, Name: name}.String()
}

// controllerOf returns the owner of an object that is its controller; "" if there is none.
func controllerOf(o map[string]any) (kind, name string) {
	for _, ref := range obj.Maps(o, "metadata", "ownerReferences") {
		if ref["controller"] == true {
			return obj.String(ref, "kind"), obj.String(ref, "name")
		}
	}
	return "", ""
}
