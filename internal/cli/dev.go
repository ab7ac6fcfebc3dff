package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/fakeapi"
	"skiff/internal/simulate"
)

func newDev() *cobra.Command {
	var flags controllerFlags
	var listen, out string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run an API server on this machine, with simulated nodes and the controllers",
		Long: `Runs a Kubernetes API server inside this process, on HTTPS on the loopback interface, with simulated
nodes (nothing really runs in their pods), the custom resource definitions and the controllers. It writes a kubeconfig
for kubectl and skiff. Everything is in memory and ends with the process.`,
		Example: `  skiff dev
  skiff dev --listen 127.0.0.1:6443 --kubeconfig-out ./dev.kubeconfig`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if err := checkLoopback("--listen", listen); err != nil {
				return err
			}
			log, err := flags.log.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if out == "" {
				if out, err = defaultKubeconfigOut(); err != nil {
					return err
				}
			}
			// The simulation's reconciles are not what the user wants to follow: two levels down.
			d, err := newDevCluster(devOptions{listen: listen, kubeconfig: out,
				simulate: simulate.Options{Log: log.V(2)},
				log:      log})
			if err != nil {
				return err
			}
			return d.run(cmd.Context(), func(ctx context.Context) error {
				client, err := d.connect("")
				if err != nil {
					return err
				}
				defer client.Close()
				if err := installCRDs(ctx, client, 30*time.Second, io.Discard); err != nil {
					return ended(ctx, err)
				}
				printDevIntro(cmd.OutOrStdout(), d, flags)
				return runControllers(ctx, client, flags, nil, log)
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0",
		"`address` of this machine to serve on; port 0 takes a free one")
	cmd.Flags().StringVar(&out, "kubeconfig-out", "", "`file` to write the kubeconfig to, removed at the end "+
		"(default skiff/dev.kubeconfig in the user's cache directory)")
	return cmd
}

// defaultKubeconfigOut is a place that is the user's own and that no other tool reads by itself.
func defaultKubeconfigOut() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for the kubeconfig: %w: say where with --kubeconfig-out", err)
	}
	return filepath.Join(dir, "skiff", "dev.kubeconfig"), nil
}

// devObjects are one object of each kind, as short as they can be written.
const devObjects = `{apiVersion: skiff.dev/v1alpha1, kind: WebServer, metadata: {name: web}, spec: {image: "nginx:1.23.1", replicas: 3}}
---
{apiVersion: skiff.dev/v1alpha1, kind: Redis, metadata: {name: cache}, spec: {port: 6379, num: 3}}
---
apiVersion: skiff.dev/v1alpha1
kind: RestartTrigger         # when a pod of cache is replaced, web is restarted
metadata: {name: web}
spec:
  source: {selector: {matchLabels: {app.kubernetes.io/instance: cache}}}
  targets: [{kind: Deployment, name: web}]
`

func printDevIntro(out io.Writer, d *devCluster, f controllerFlags) {
	path, err := filepath.Abs(d.o.kubeconfig)
	if err != nil {
		path = d.o.kubeconfig // the working directory is gone; then the name as given is all there is
	}
	fmt.Fprintf(out, `
API server   %s  (Kubernetes %s, embedded; ends with this process)
controllers  %s

In another terminal:

  export KUBECONFIG='%s'
  kubectl apply -f - <<'END'
%sEND
  kubectl get webservers,redis,restarttriggers,deployments,services,pods
  kubectl scale webserver/web --replicas=5
  kubectl scale redis/cache --replicas=2       # cache-2 goes
  kubectl delete pod cache-0                   # comes back, and then web is restarted
  kubectl describe restarttrigger web          # why
  skiff watch pods

`, d.to.Server, fakeapi.Version, strings.Join(f.controllers, ", "), path, devObjects)
}
