package cli

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
)

var crdsResource = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

var skiffDevs = clitest.Program{Name: "skiff-dev",
	Main: func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return Main(ctx, append([]string{"skiff-dev"}, args...), stdout, stderr, nil)
	}}

// skiffDev runs a command in this process.
func skiffDev(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return skiffDevs.Run(t.Context(), t, args...)
}

// connect connects with a kubeconfig, and what else the flags say.
func connect(t *testing.T, path string, with kubeconfig.Flags) (*kube.Client, kube.Config) {
	t.Helper()
	with.Kubeconfig = path
	cfg, _, err := kubeconfig.Load(with, kubeconfig.OSEnv(nil))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, cfg
}

// writeFile writes a file of a new directory, and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	return filepath.Join(writeFiles(t, map[string]string{"file": text}), "file")
}

func named(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}}
}

// pipeCluster is a cluster for a test in a synctest bubble. Its run takes it down.
func pipeCluster() *devCluster {
	api := apiserver.New(apiserver.Options{})
	pipe := api.ListenPipe()
	return &devCluster{api: api, serving: pipe, to: kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial},
		o: devOptions{simulate: demoPods}}
}
