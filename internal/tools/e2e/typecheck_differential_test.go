package e2e

import (
	"context"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/cel"
	"skiff/internal/testcluster/simulate"
)

// skiff-dev says about the types in the expressions of policies what the controller of a real cluster does.
func TestSkiffDevChecksTheTypesOfPoliciesAsTheRealController(t *testing.T) {
	c := ownCluster(t)
	path := must(c.Kubeconfig(controllerManager))(t)
	must(c.Start("kube-controller-manager", nil, c.bins.controllerManager, "--kubeconfig", path,
		"--leader-elect=false", "--secure-port=0", "--controllers", "validatingadmissionpolicy-status-controller"))(t)
	server, fake := serveFake(t, cel.New())
	simulatePolicies(t, server, fake)
	runDifferential(t, readScript(t, "cel/types.txtar", nil), c.Admin, fake, nil)
}

// simulatePolicies runs the simulated controller of policies until the test is over.
func simulatePolicies(t *testing.T, server *apiserver.Server, api *API) {
	t.Helper()
	cfg, _, err := kubeconfig.Load(kubeconfig.Flags{Server: api.base, Token: kubeconfig.NewSecret(api.token),
		InsecureLoopbackHTTP: true}, kubeconfig.OSEnv(func(string) {}))
	if err != nil {
		t.Fatal(err)
	}
	client := must(kube.New(cfg))(t)
	o := simulate.Options{TypeCheck: server.TypeCheck}
	for _, part := range simulate.Parts() {
		if part != simulate.Policies {
			o.Without = append(o.Without, part)
		}
	}
	ctx, cancel := context.WithCancel(noContext)
	ended := make(chan error, 1)
	go func() { ended <- simulate.New(client, o).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		client.Close()
	})
}
