package simulate

import (
	"context"
	"fmt"
	"time"

	"skiff/internal/kube"
)

// createNodes creates the nodes of the cluster.
func createNodes(ctx context.Context, c *kube.Client, o Options) error {
	for _, name := range o.Nodes {
		err := create(ctx, c, nodeResource, "", map[string]any{"metadata": map[string]any{"name": name,
			"labels": map[string]any{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
				"kubernetes.io/arch": "amd64"}}})
		if err != nil {
			return err
		}
		err = c.Patch(ctx, nodeResource, kube.Key{Name: name}, kube.MergePatch,
			map[string]any{"status": nodeStatus(o.nodeIP(name), name)},
			nil, kube.WriteOptions{FieldManager: manager, Subresource: "status"})
		if err != nil {
			return err
		}
	}
	return nil
}

func nodeStatus(ip, name string) map[string]any {
	// Large, so that pods always fit.
	capacity := map[string]any{"cpu": "32", "memory": "256Gi", "pods": "1000"}
	now := wireTime(time.Now())
	return map[string]any{
		"capacity": capacity, "allocatable": capacity,
		"addresses": []any{
			map[string]any{"type": "InternalIP", "address": ip},
			map[string]any{"type": "Hostname", "address": name},
		},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady",
			"message": "simulated by skiff", "lastHeartbeatTime": now, "lastTransitionTime": now}},
		"nodeInfo": map[string]any{"kubeletVersion": "v0.0.0-simulated", "osImage": "none", "operatingSystem": "linux",
			"architecture": "amd64", "kernelVersion": "none", "containerRuntimeVersion": "simulated://1",
			"machineID":  name,
			"systemUUID": name, "bootID": name, "kubeProxyVersion": ""},
	}
}

// nodeIP returns the address of a node: its index in the list, in a network for documentation (RFC 5737).
func (o Options) nodeIP(name string) string {
	for i, n := range o.Nodes {
		if n == name {
			return fmt.Sprintf("192.0.2.%d", i+1)
		}
	}
	return "192.0.2.254" // a node that the user has created
}
