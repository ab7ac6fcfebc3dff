package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// kubeControllers are the loops that the stories need. Naming them saves the start of forty others. node-lifecycle removes the
// not-ready taint of the fake node.
var kubeControllers = []string{
	"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
	"garbage-collector-controller", "namespace-controller", "node-lifecycle-controller",
}

// fakeNode is a node that kwok plays, big enough for whatever a test creates.
const fakeNode = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-0",
	"annotations":{"kwok.x-k8s.io/node":"fake"},"labels":{"kubernetes.io/hostname":"node-0","type":"kwok"}},
	"status":{"allocatable":{"cpu":"1000","memory":"1000Gi","pods":"10000"},"capacity":{"cpu":"1000","memory":"1000Gi","pods":"10000"}}}`

// startControllers starts what makes Deployments become running pods, and returns when the node is Ready.
func (c *Cluster) startControllers(ctx context.Context) error {
	kubeconfigs := map[string]string{}
	for _, u := range []User{controllerManager, scheduler, kwok} {
		path, err := c.Kubeconfig(u)
		if err != nil {
			return err
		}
		kubeconfigs[u.Name] = path
	}
	_, err1 := c.Start("kube-controller-manager", nil, c.bins.controllerManager,
		"--kubeconfig", kubeconfigs[controllerManager.Name], "--leader-elect=false", "--secure-port=0",
		"--controllers", strings.Join(kubeControllers, ","),
		"--kube-api-qps=300", "--kube-api-burst=600") // the default of 20 would make namespaces go in minutes
	_, err2 := c.Start("kube-scheduler", nil, c.bins.scheduler,
		"--kubeconfig", kubeconfigs[scheduler.Name], "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=300", "--kube-api-burst=600")
	player, err3 := c.Start("kwok", nil, c.bins.kwok,
		"--kubeconfig", kubeconfigs[kwok.Name], "--manage-all-nodes", "--config", c.bins.kwokStages)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if _, err := c.Admin.Create(ctx, "/api/v1/nodes", fakeNode); err != nil {
		return fmt.Errorf("create the node: %w", err)
	}
	return waitFor(ctx, player, func() error {
		node, err := c.Admin.Get(ctx, "/api/v1/nodes/node-0")
		if err != nil {
			return err
		}
		if node.Condition("Ready").Str("status") != "True" {
			return errors.New("node-0 is not Ready")
		}
		if taints := node.List("spec", "taints"); len(taints) > 0 {
			return fmt.Errorf("node-0 has the taints %v", taints)
		}
		return nil
	})
}
