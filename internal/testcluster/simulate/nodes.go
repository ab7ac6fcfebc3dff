package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// createNodes creates the nodes of the cluster.
func (s *shared) createNodes(ctx context.Context) error {
	for _, name := range s.Nodes {
		err := s.create(ctx, nodeResource, "", object{"metadata": object{"name": name,
			"labels": object{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
				"kubernetes.io/arch": "amd64"}}})
		if err != nil {
			return err
		}
		err = s.client.Patch(ctx, nodeResource, kube.Key{Name: name}, kube.MergePatch,
			object{"status": nodeStatus(s.nodeIP(name), name, s.Version)},
			nil, kube.WriteOptions{FieldManager: manager, Subresource: "status"})
		if err != nil {
			return err
		}
	}
	return nil
}

func nodeStatus(ip, name, version string) object {
	// Large, so that pods always fit.
	capacity := object{"cpu": "1000", "memory": "4Ti", "pods": "10000"}
	now := wireTime(time.Now())
	condition := func(kind, status, reason, message string) any {
		return object{"type": kind, "status": status, "reason": reason, "message": message,
			"lastHeartbeatTime": now, "lastTransitionTime": now}
	}
	return object{
		"capacity": capacity, "allocatable": capacity,
		"addresses": []any{
			object{"type": "InternalIP", "address": ip},
			object{"type": "Hostname", "address": name},
		},
		"conditions": []any{
			condition("MemoryPressure", "False", "KubeletHasSufficientMemory",
				"kubelet has sufficient memory available"),
			condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
			condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
			condition("Ready", "True", "KubeletReady", "simulated by skiff")},
		"nodeInfo": object{"kubeletVersion": cmp.Or(version, "v0.0.0-simulated"), "osImage": "none",
			"operatingSystem": "linux", "architecture": "amd64",
			"kernelVersion": "none", "containerRuntimeVersion": "simulated://1",
			"machineID": name, "systemUUID": name, "bootID": name, "kubeProxyVersion": ""},
	}
}

// A kubelet renews a Lease, as a sign of life to the cluster, and now and then the heartbeats in the status of the
// node.
const (
	leaseRenewal = 10 * time.Second
	heartbeat    = 5 * time.Minute
	leaseSeconds = 40
)

// heartbeats renews the Leases of the nodes.
type heartbeats struct{ controllerOf[*node] }

func newHeartbeats(s *shared) runner {
	h := &heartbeats{newController[*node](s, nodeResource, "")}
	return h.forEach("nodes", h.sync)
}

func (h *heartbeats) sync(ctx context.Context, n *node) (time.Duration, error) {
	if !slices.Contains(h.Nodes, n.Name) {
		return 0, nil
	}
	now, lease := time.Now(), kube.Key{Namespace: "kube-node-lease", Name: n.Name}
	spec := object{"renewTime": now.UTC().Format("2006-01-02T15:04:05.000000Z")}
	err := h.client.Patch(ctx, leaseResource, lease, kube.MergePatch, object{"spec": spec}, nil,
		kube.WriteOptions{FieldManager: "kubelet"})
	if kube.IsNotFound(err) {
		spec["holderIdentity"], spec["leaseDurationSeconds"] = n.Name, leaseSeconds
		err = h.create(ctx, leaseResource, lease.Namespace, object{"spec": spec,
			"metadata": object{"name": lease.Name, "ownerReferences": []any{object{
				"apiVersion": "v1", "kind": nodeResource.Kind, "name": n.Name, "uid": n.UID}}}})
	}
	if len(n.Status.Conditions) > 0 && now.Sub(n.Status.Conditions[0].LastHeartbeatTime) >= heartbeat && err == nil {
		var beats []any
		for _, c := range n.Status.Conditions {
			beats = append(beats, object{"type": c.Type, "lastHeartbeatTime": wireTime(now)})
		}
		err = h.client.Patch(ctx, nodeResource, n.Key(), kube.StrategicMergePatch, object{
			"metadata": object{"uid": n.UID}, "status": object{"conditions": beats}}, nil,
			kube.WriteOptions{FieldManager: "kubelet", Subresource: "status"})
	}
	return leaseRenewal, err
}

// nodeIP returns the address of a node: the index in the list, in a network for documentation (RFC 5737).
func (s *shared) nodeIP(name string) string {
	if i := slices.Index(s.Nodes, name); i >= 0 {
		return fmt.Sprintf("192.0.2.%d", i+1)
	}
	return "192.0.2.254" // a node of the user
}
