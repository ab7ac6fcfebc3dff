package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// kubeControllers are the loops that the stories need. Naming them saves the start of forty others. node-lifecycle
// removes the not-ready taint of the fake node.
var kubeControllers = []string{
	"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
	"garbage-collector-controller", "namespace-controller", "node-lifecycle-controller",
	"serviceaccount-controller", "root-ca-certificate-publisher-controller",
}

// fakeNode is a node that kwok plays, big enough for all that a test creates.
const fakeNode = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-0",
	"annotations":{"kwok.x-k8s.io/node":"fake"},"labels":{"kubernetes.io/hostname":"node-0","type":"kwok"}},
	"status":{"allocatable":{"cpu":"1000","memory":"1000Gi","pods":"10000"},"capacity":{"cpu":"1000","memory":"1000Gi","pods":"10000"}}}`

// startControllers makes the node, starts what makes Deployments become running pods, and returns when that works.
func (c *Cluster) startControllers(ctx context.Context) error {
	if _, err := c.Admin.Create(ctx, "/api/v1/nodes", fakeNode); err != nil {
		return fmt.Errorf("create the node: %w", err)
	}
	return c.runControllers(ctx)
}

// restartControllers kills the programs that startControllers started, and starts them again.
func (c *Cluster) restartControllers(ctx context.Context) error {
	for _, p := range c.controllers {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	return c.runControllers(ctx)
}

// runControllers starts the controller manager, the scheduler and kwok, and returns when a Deployment becomes a ready
// pod.
func (c *Cluster) runControllers(ctx context.Context) error {
	kubeconfigs := map[string]string{}
	for _, u := range []User{controllerManager, scheduler, kwok} {
		path, err := c.Kubeconfig(u)
		if err != nil {
			return err
		}
		kubeconfigs[u.Name] = path
	}
	manager, err1 := c.Start("kube-controller-manager", nil, c.bins.controllerManager,
		"--kubeconfig", kubeconfigs[controllerManager.Name], "--leader-elect=false", "--secure-port=0",
		"--controllers", strings.Join(c.loops, ","), "--root-ca-file", c.CAFile,
		"--kube-api-qps=300", "--kube-api-burst=600") // the default of 20 would make namespaces go in minutes
	placer, err2 := c.Start("kube-scheduler", nil, c.bins.scheduler,
		"--kubeconfig", kubeconfigs[scheduler.Name], "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=300", "--kube-api-burst=600")
	player, err3 := c.Start("kwok", nil, c.bins.kwok,
		"--kubeconfig", kubeconfigs[kwok.Name], "--manage-all-nodes", "--config", c.bins.kwokStages)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	c.controllers = []*Process{manager, placer, player}
	if err := waitFor(ctx, player, func() error { return c.nodeReady(ctx) }); err != nil {
		return err
	}
	return c.tryOut(ctx, manager)
}

// nodeReady is nil if pods can be placed on the node.
func (c *Cluster) nodeReady(ctx context.Context) error {
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
}

// trialDeployment is a Deployment in a namespace that no test looks at.
const trialDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"trial"},"spec":{"replicas":1,
	"selector":{"matchLabels":{"app":"trial"}},
	"template":{"metadata":{"labels":{"app":"trial"}},"spec":{"containers":[{"name":"main","image":"x"}]}}}}`

// tryOut returns when a new Deployment has become a ready pod, and is gone again with all that belongs to it: then the
// controllers, the scheduler, the node and the garbage collector have all caught up.
func (c *Cluster) tryOut(ctx context.Context, manager *Process) error {
	const deployments = "/apis/apps/v1/namespaces/kube-system/deployments"
	if _, err := c.Admin.Create(ctx, deployments, trialDeployment); err != nil {
		return fmt.Errorf("try out the controllers: %w", err)
	}
	if err := waitFor(ctx, manager, func() error {
		d, err := c.Admin.Get(ctx, deployments+"/trial")
		if err == nil && d.Int("status", "readyReplicas") != 1 {
			err = fmt.Errorf("the trial Deployment has no ready pod: %s", d)
		}
		return err
	}); err != nil {
		return err
	}
	if err := c.Admin.Delete(ctx, deployments+"/trial"); err != nil {
		return fmt.Errorf("try out the controllers: %w", err)
	}
	return waitFor(ctx, manager, func() error {
		list, err := c.Admin.Get(ctx, "/api/v1/namespaces/kube-system/pods?labelSelector=app%3Dtrial")
		if err == nil && len(list.List("items")) > 0 {
			err = errors.New("the pod of the trial Deployment is not gone")
		}
		return err
	})
}
