package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/offline"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// The bounds of all requests to a cluster for schemas: the largest take a second on a slow line. A cluster that no
// flag names, perhaps behind a VPN that is down, must not make each call of a hook slow.
const (
	schemasTimeout = 10 * time.Second
	unnamedTimeout = 3 * time.Second
)

// connect finds the cluster. A cluster that no flag names may be missing.
func (f *hookCall) connect(cmd *cobra.Command) error {
	f.client, f.noCluster = Connect(cmd, f.connection)
	if f.noCluster != nil && f.namesCluster(cmd) {
		return f.noCluster
	}
	return nil
}

// namesCluster says whether a flag names the cluster, or how to reach it.
func (f *hookCall) namesCluster(cmd *cobra.Command) bool {
	return slices.ContainsFunc(slices.Concat(connectionFlags, advancedConnectionFlags), cmd.Flags().Changed)
}

// readSchemas reads from the cluster about the children of which no definition in -f is. unchecked says what was not
// found out because there is no cluster.
func (f *hookCall) readSchemas(ctx context.Context, t *offline.Trial, answer *wire.Answer, named bool) (
	unchecked []string, err error) {
	undefined := t.Undefined(answer)
	if len(undefined) == 0 {
		return nil, nil
	}
	if err = f.noCluster; f.client != nil {
		limit := schemasTimeout
		if !named {
			limit = unnamedTimeout
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err = serve(ctx, f.client, t, undefined)
	}
	switch {
	case err == nil:
		return nil, nil
	case named:
		return nil, fmt.Errorf("read the schemas of children: %w", err)
	}
	kinds := undefined[0].Kind
	if more := len(undefined) - 1; more > 0 {
		kinds += " and " + health.Count(more, "other kind", "other kinds")
	}
	return []string{fmt.Sprintf("the fields of %s are not checked: %v", kinds, withAdvice(err))}, nil
}

// serve gives a trial the schemas that a cluster has for some kinds. A group without a document has none.
func serve(ctx context.Context, c *kube.Client, t *offline.Trial, kinds []kube.Resource) error {
	asked := map[string]bool{}
	for _, r := range kinds {
		if asked[r.APIVersion()] {
			continue
		}
		asked[r.APIVersion()] = true
		all, err := discovery.ReadSchemas(ctx, c, r)
		if kube.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		t.Serve(r.APIVersion(), all)
	}
	return nil
}
