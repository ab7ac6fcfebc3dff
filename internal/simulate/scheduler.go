package simulate

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"skiff/internal/controller"
	"skiff/internal/kube"
)

// node is the part of a Node that the scheduler reads. It GETs nodes: there are few, and a mirror would cost more.
type node struct {
	Spec struct {
		Unschedulable bool `json:"unschedulable"` // kubectl cordon
	} `json:"spec"`
}

// schedule binds a pod to a node chosen by a hash of its uid, so that pods are spread evenly and a retry chooses the
// same node.
func (c *kubelet) schedule(ctx context.Context, p *kubeletPod, status map[string]any) (controller.Outcome, error) {
	h := fnv.New32a()
	h.Write([]byte(p.UID))
	for i := range len(c.o.Nodes) {
		name := c.o.Nodes[(h.Sum32()+uint32(i))%uint32(len(c.o.Nodes))]
		var n node
		err := c.client.Get(ctx, nodeResource, kube.Key{Name: name}, &n)
		if kube.IsNotFound(err) || err == nil && n.Spec.Unschedulable {
			continue
		}
		if err != nil {
			return controller.Done, err
		}
		return controller.Done, c.client.Create(ctx, podResource, p.Namespace, map[string]any{
			"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": p.Name, "uid": p.UID},
			"target": map[string]any{"kind": nodeResource.Kind, "name": name},
		}, nil, kube.WriteOptions{FieldManager: manager, Subresource: "binding"})
	}
	return controller.After(mirrorLag), c.unschedulable(ctx, p, status)
}

// unschedulable sets the condition PodScheduled=False of a pod that fits on no node, once.
func (c *kubelet) unschedulable(ctx context.Context, p *kubeletPod, status map[string]any) error {
	if conditions, _ := status["conditions"].([]any); len(conditions) > 0 {
		return nil // it is the only condition of a pod without a node
	}
	condition := map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
		"lastTransitionTime": wireTime(time.Now()),
		"message":            fmt.Sprintf("0/%d nodes are available: they are cordoned or deleted.", len(c.o.Nodes))}
	return c.client.Patch(ctx, podResource, p.Key(), kube.StrategicMergePatch, map[string]any{
		"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"conditions": []any{condition}},
	}, nil, kube.WriteOptions{FieldManager: manager, Subresource: "status"})
}
