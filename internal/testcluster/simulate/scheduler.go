package simulate

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/patch"
)

// node is the part of a Node that the scheduler and the DaemonSet controller read.
type node struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Unschedulable bool    `json:"unschedulable"` // kubectl cordon
		Taints        []taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Allocatable map[string]string `json:"allocatable"`
		Conditions  []struct {
			Type              string    `json:"type"`
			LastHeartbeatTime time.Time `json:"lastHeartbeatTime"`
		} `json:"conditions"`
	} `json:"status"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

const noExecute = "NoExecute"

// placement is the part of a pod's spec about the nodes that suit.
type placement struct {
	NodeSelector map[string]string `json:"nodeSelector"`
	Affinity     struct {
		NodeAffinity struct {
			Required struct {
				Terms []nodeTerm `json:"nodeSelectorTerms"`
			} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `json:"nodeAffinity"`
	} `json:"affinity"`
	Tolerations []toleration `json:"tolerations"`
}

type nodeTerm struct {
	MatchExpressions labels.Requirements `json:"matchExpressions"`
	MatchFields      labels.Requirements `json:"matchFields"`
}

type toleration struct {
	Key      string `json:"key"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
	Effect   string `json:"effect"`

	TolerationSeconds *int `json:"tolerationSeconds"`
}

// misfit returns why a pod cannot be on a node, "" if the pod can. A daemon also runs on nodes cordoned or in trouble.
func (p *placement) misfit(n *node, daemon bool) string {
	if n.Spec.Unschedulable && !daemon {
		return "node(s) were unschedulable"
	}
	for _, t := range n.Spec.Taints {
		system := daemon && strings.HasPrefix(t.Key, "node.kubernetes.io/")
		if t.Effect != "PreferNoSchedule" && !system && !slices.ContainsFunc(p.Tolerations, t.toleratedBy) {
			return "node(s) had untolerated taint(s)"
		}
	}
	terms := p.Affinity.NodeAffinity.Required.Terms
	if !include(n.Labels, p.NodeSelector) || len(terms) > 0 && !slices.ContainsFunc(terms, n.matches) {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	return ""
}

func (t taint) toleratedBy(by toleration) bool {
	return (by.Effect == "" || by.Effect == t.Effect) && (by.Key == t.Key || by.Key == "" &&
		by.Operator == "Exists") && (by.Operator == "Exists" || by.Value == t.Value)
}

// matches evaluates a term. The operators Gt and Lt, which only nodes know, are not looked at.
func (n *node) matches(t nodeTerm) bool {
	name := kube.Labels{{Key: "metadata.name", Value: n.Name}}
	return len(t.MatchExpressions)+len(t.MatchFields) > 0 && t.MatchExpressions.Match(n.Labels) &&
		t.MatchFields.Match(name)
}

// requests are the requests of a pod, or of all pods on a node: in thousandths of CPUs and bytes; pods count.
type requests map[string]int64

// requestsOf adds up the requests of the containers of a pod.
func requestsOf(p *kubeletPod) requests {
	out := requests{"pods": 1}
	for _, c := range p.Spec.Containers {
		for name, text := range c.Resources.Requests {
			out[name] += amount(name, text)
		}
	}
	return out
}

// amount reads a quantity of a resource; an invalid quantity, which the server refuses, is 0.
func amount(name, text string) int64 {
	q, err := patch.ParseQuantity(text)
	if err != nil {
		return 0
	}
	if name == "cpu" {
		return q.Times(1000)
	}
	return q.Times(1)
}

// shortage returns which request does not fit on a node.
func (c *kubelet) shortage(n *node, asked requests) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		most, limited := n.Status.Allocatable[name]
		switch {
		case !limited && name == "pods":
		case limited && c.asked[n.Name][name]+asked[name] <= amount(name, most):
		case name == "pods":
			return "Too many pods"
		default:
			return "Insufficient " + name
		}
	}
	return ""
}

// reserve counts the requests of a pod at a node, once; node "" takes the requests off again.
func (c *kubelet) reserve(p *kubeletPod, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := p.Key()
	was, ok := c.reserved[k]
	if ok && was.uid == p.UID && was.node == node {
		return
	}
	for name, n := range was.asked {
		c.asked[was.node][name] -= n
	}
	if delete(c.reserved, k); node == "" {
		return
	}
	if c.asked[node] == nil {
		c.asked[node] = requests{}
	}
	asked := requestsOf(p)
	for name, n := range asked {
		c.asked[node][name] += n
	}
	c.reserved[k] = reservation{p.UID, node, asked}
}

// reservation is the share of a pod in a node.
type reservation struct {
	uid, node string
	asked     requests
}

// waiting returns the pods that fit on no node.
func (c *kubelet) waiting() []kube.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.unfit))
}

// onFreed returns the pods that fit on no node, for a pod that no longer takes anything of a node.
func (c *kubelet) onFreed(p *kubeletPod) []kube.Key {
	c.mu.Lock()
	_, takes := c.reserved[p.Key()]
	c.mu.Unlock()
	if takes || p.Spec.NodeName == "" && !p.Deleting() {
		return nil
	}
	return c.waiting()
}

// schedule binds a pod to a suitable node, chosen by a hash of the uid, so that pods are spread evenly and a retry
// chooses the same node.
func (c *kubelet) schedule(ctx context.Context, p *kubeletPod, status object) error {
	c.mark(p, true) // before the look, not to miss a change
	nodes, err := c.nodes.List("")
	if err != nil {
		return err
	}
	slices.SortFunc(nodes, func(a, b *node) int { return strings.Compare(a.Name, b.Name) })
	h := fnv.New32a()
	h.Write([]byte(p.UID))
	asked, why := requestsOf(p), map[string]int{}
	for i := range nodes {
		n := nodes[(h.Sum32()+uint32(i))%uint32(len(nodes))]
		reason := p.Spec.misfit(n, false)
		if reason == "" {
			reason = c.shortage(n, asked)
		}
		if reason != "" || n.Deleting() {
			why[reason]++
			continue
		}
		c.reserve(p, n.Name)
		err := c.client.Create(ctx, podResource, p.Namespace, object{
			"apiVersion": "v1", "kind": "Binding", "metadata": object{"name": p.Name, "uid": p.UID},
			"target": object{"kind": nodeResource.Kind, "name": n.Name},
		}, nil, kube.WriteOptions{FieldManager: manager, Subresource: "binding"})
		if err != nil {
			c.reserve(p, "")
			return err
		}
		c.mark(p, false)
		c.scheduled(podResource, p, events.Normal, "Scheduled",
			fmt.Sprintf("Successfully assigned %s to %s", p.Key(), n.Name))
		return nil
	}
	return c.unschedulable(ctx, p, status, len(nodes), why)
}

// mark notes whether a pod waits for a node.
func (c *kubelet) mark(p *kubeletPod, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.unfit, p.Key()); waits {
		c.unfit[p.Key()] = true
	}
}

// unschedulable sets the condition PodScheduled=False of a pod that fits on no node, unless unchanged.
func (c *kubelet) unschedulable(ctx context.Context, p *kubeletPod, status object, nodes int,
	why map[string]int) error {
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		reasons = append(reasons, fmt.Sprintf("%d %s", why[reason], reason))
	}
	message := fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(reasons, ", "))
	if nodes == 0 {
		message = "no nodes available to schedule pods"
	}
	if list, _ := status["conditions"].([]any); len(list) > 0 {
		if was, _ := list[0].(object); was["message"] == message {
			return nil // the only condition of a pod without a node
		}
	}
	condition := object{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
		"lastTransitionTime": wireTime(time.Now()), "message": message}
	c.scheduled(podResource, p, events.Warning, "FailedScheduling", message)
	return c.patch(ctx, kube.StrategicMergePatch, podResource, p, "status",
		object{"status": object{"conditions": []any{condition}}})
}
