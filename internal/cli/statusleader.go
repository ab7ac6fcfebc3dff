package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"skiff/internal/install/manifests"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/leader"
)

// This file asks the leading skiff of a cluster for status: the Lease names a pod, and the API server passes the
// request on to the pod. Any user may write a Lease of this name, and any program may run in the pod.

const (
	// maxLeaders bounds the Leases of one name whose holders are asked: a cluster has a few skiffs.
	maxLeaders = 20
	// maxLeaderStatus is more than skiff prints about a thousand namespaces.
	maxLeaderStatus = 1 << 20
)

// leaderFlags are the flags of `skiff status` that say where the Leases are.
type leaderFlags struct {
	connection    kubeconfig.Flags
	namespace, id string
}

var leaderNames = []string{"leader-election-namespace", "leader-election-id"}

func (f *leaderFlags) add(cmd *cobra.Command) {
	addConnectionFlags(cmd, &f.connection)
	fs := cmd.Flags()
	fs.StringVar(&f.namespace, "leader-election-namespace", "", "`namespace` of the Lease (default: all)")
	fs.StringVar(&f.id, "leader-election-id", "", "`name` of the Lease (default: skiff and skiff-hooks)")
	InGroup(cmd, groupConnection, leaderNames...)
}

// given says whether a cluster is named on the command line: then nothing on this machine is asked.
func (f *leaderFlags) given(cmd *cobra.Command) bool {
	names := slices.Concat(connectionFlags, advancedConnectionFlags, leaderNames)
	return slices.ContainsFunc(names, cmd.Flags().Changed)
}

func (f *leaderFlags) check() error {
	if f.namespace != "" && !namespaceName().MatchString(f.namespace) {
		return Usagef("--leader-election-namespace: %q is not a valid namespace name", f.namespace)
	}
	if f.id != "" && !kube.ValidName(f.id) {
		return Usagef("--leader-election-id: %q is not a valid name of a Lease", f.id)
	}
	return nil
}

// ask asks the holder of each Lease of skiff, by the client of q. A holder that does not answer is shown with the
// reason; where no holder answers, the reasons are the error. own is the namespace of the kubeconfig.
func (f *leaderFlags) ask(ctx context.Context, q *statusAsker, own string) ([]*status, error) {
	names := []string{programLease, hooksLease}
	if f.id != "" {
		names = []string{f.id}
	}
	held, err := heldIn(ctx, q.cluster, f.namespace, names)
	if kube.IsForbidden(err) && f.namespace == "" { // few users may list the Leases of all namespaces
		var some []leader.Holder
		for _, namespace := range slices.Compact([]string{own, home}) {
			if in, failed := heldIn(ctx, q.cluster, namespace, names); failed == nil {
				some, err = append(some, in...), nil
			}
		}
		held = some
	}
	if err != nil {
		return nil, withGrant(fmt.Errorf("find the Lease of a skiff: %w", err))
	}
	if len(held) == 0 {
		return nil, fmt.Errorf("there is no Lease %s in %s, so that no skiff runs there with --leader-elect; name "+
			"the Lease with --leader-election-namespace and --leader-election-id, or ask in a pod: kubectl exec "+
			"-n skiff deploy/skiff -- /skiff status", strings.Join(names, " or "),
			cmp.Or(f.namespace, "a namespace that this user may read"))
	}
	all, errs := make([]*status, len(held)), make([]error, len(held))
	var asking sync.WaitGroup
	for i, h := range held { // all at once: a pod that does not answer must not keep the others waiting
		asking.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, q.timeout, fmt.Errorf("no answer within %s", q.timeout))
			defer cancel()
			all[i], errs[i] = askHolder(ctx, q.cluster, h)
		})
	}
	asking.Wait()
	if !slices.Contains(errs, nil) {
		return nil, errors.Join(errs...)
	}
	for i, err := range errs {
		if err != nil {
			all[i] = &status{Address: "Lease " + held[i].Lease.String(), Probes: &health.Report{Format: health.Format,
				Checks: []health.Check{{Name: "leader", Failed: []health.Problem{{Reason: "NotAsked",
					Public: kube.Text(err.Error())}}}}}}
		}
	}
	return all, nil
}

// heldIn returns who holds the Leases of these names in a namespace, "" for all.
func heldIn(ctx context.Context, c *kube.Client, namespace string, names []string) (all []leader.Holder, err error) {
	for _, name := range names {
		some, err := leader.Held(ctx, c, namespace, name, maxLeaders+1)
		if err != nil {
			return nil, err
		}
		if len(some) > maxLeaders {
			return nil, fmt.Errorf("more than %d Leases have the name %s: choose one with --leader-election-namespace",
				maxLeaders, name)
		}
		all = append(all, some...)
	}
	return all, nil
}

// askHolder asks the holder of a Lease for its probes, by way of the API server.
func askHolder(ctx context.Context, c *kube.Client, h leader.Holder) (*status, error) {
	if h.Identity == "" {
		return nil, fmt.Errorf("nobody holds Lease %s: no skiff runs there, or the next one takes it in a moment",
			h.Lease)
	}
	pod := kube.Key{Namespace: h.Lease.Namespace, Name: h.Host()}
	if !kube.ValidName(pod.Name) || !kube.ValidName(pod.Namespace) { // anybody may have written the Lease
		return nil, fmt.Errorf("the holder of Lease %s is %q, which is no name of a pod", h.Lease,
			kube.Printable(h.Identity, 100))
	}
	path := "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + ":" + manifests.Ports[0] + "/proxy/readyz"
	body, err := c.Raw(ctx, http.MethodGet, path, url.Values{"format": {"json"}})
	if refused := kube.AsStatus(err); refused != nil { // skiff says so when it is not ready
		body = refused.Foreign()
	}
	var s *status
	if len(body) <= maxLeaderStatus {
		s = readProbes("pod "+pod.String(), body)
	}
	if s == nil && err == nil {
		err = errors.New("the answer is not that of skiff")
	}
	if s == nil {
		return nil, withHolderAdvice(fmt.Errorf("ask pod %s, the holder of Lease %s, for its status: %w", pod, h.Lease,
			err), h)
	}
	s.Probes.Checks = slices.Insert(s.Probes.Checks, 0, health.Check{Name: "leader",
		Notes: []string{"holds Lease " + h.Lease.String()}})
	return s, nil
}

// withHolderAdvice adds the next step where the holder of a Lease could not be asked.
func withHolderAdvice(err error, h leader.Holder) error {
	switch {
	case kube.IsForbidden(err):
		return withGrant(err)
	case kube.IsNotFound(err):
		return advisedError{fmt.Errorf("%w; %s is no pod of namespace %s: it runs elsewhere, or has ended (it "+
			"renewed the Lease last at %s)", err, kube.Printable(h.Identity, 100), h.Lease.Namespace,
			kube.Printable(h.Renewed, 100))}
	}
	return advisedError{fmt.Errorf("%w; its pod must serve the probes on port %s; or read its log: kubectl logs "+
		"-n %s %s", err, manifests.Ports[0], h.Lease.Namespace, h.Host())}
}

// withGrant adds the command by which an administrator lets a user ask for the status.
func withGrant(err error) error {
	user := kube.ForbiddenUser(err)
	if user == "" {
		return err
	}
	return advisedError{fmt.Errorf("%w; an administrator grants it: kubectl create clusterrole skiff-status "+
		"--verb=get,list --resource=leases.coordination.k8s.io,pods/proxy && kubectl create clusterrolebinding "+
		"skiff-status --clusterrole=skiff-status --user=%s", err, user)}
}
