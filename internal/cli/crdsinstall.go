package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

func newCRDsInstall() *cobra.Command {
	var connection kubeconfig.Flags
	timeout := 30 * time.Second // even a busy server serves a new CRD within a few seconds
	wait := false
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install or update the definitions in a cluster",
		Long: `Applies the definitions (server-side apply, field manager skiff) and waits until the server serves
them. Changes by others are overwritten only in fields that this version sets differently. Running it again changes
nothing. A definition that has objects stored in a version which this skiff does not know is refused. One that is
being deleted cannot be installed: it is named with what holds it, or waited for with --wait.
Exit codes: 0 installed, 3 a definition is being deleted, 1 failed, 2 wrong usage.`,
		Example: `  skiff crds install
  skiff crds install --wait --timeout 5m      # after a deletion that has not ended
  skiff crds install --context prod --as admin`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return Usagef("--timeout %s: must be more than 0", timeout)
			}
			client, _, err := connect(connection, warnTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer client.Close()
			return installDefinitions(cmd.Context(), client, timeout, wait, cmd.OutOrStdout())
		},
	}
	addConnectionFlags(cmd, &connection)
	cmd.Flags().BoolVar(&wait, "wait", wait, "wait for definitions that are being deleted to go, then install them")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout,
		"how long to wait until the server serves the definitions; with --wait, also for the end of deletions")
	return cmd
}

// InstallCRDs applies the definitions, after those that are being deleted have gone, and waits until all are
// established.
func InstallCRDs(ctx context.Context, c *kube.Client, timeout time.Duration, out io.Writer) error {
	return installDefinitions(ctx, c, timeout, true, out)
}

// installDefinitions applies the definitions, prints whether each was created, updated or unchanged, and waits until
// all are established. It returns errDiffer if one is being deleted, unless it may wait for the end of that.
func installDefinitions(ctx context.Context, c *kube.Client, timeout time.Duration, wait bool, out io.Writer) error {
	all, err := definitions()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not established within %s", timeout))
	defer cancel()
	for _, d := range all {
		if err := keepsStored(ctx, c, d); err != nil {
			return fmt.Errorf("install CRD %s: %w", d.name, err)
		}
	}
	var going []definition
	for _, d := range all {
		did, err := installCRD(ctx, c, d)
		if errors.Is(err, errGoing) {
			going, err = append(going, d), nil
			did = "is being deleted; " + holders(ctx, c, d)
		}
		if err != nil {
			return fmt.Errorf("install CRD: %w", err)
		}
		fmt.Fprintf(out, "customresourcedefinition %s %s\n", d.name, did)
	}
	if len(going) > 0 && !wait {
		fmt.Fprintln(out, "when these are gone, run `skiff crds install` again, or wait: skiff crds install --wait")
		return errDiffer
	}
	for _, d := range going {
		did, err := installGone(ctx, c, d)
		if err != nil {
			return fmt.Errorf("install CRD: %w", err)
		}
		fmt.Fprintf(out, "customresourcedefinition %s %s\n", d.name, did)
	}
	for _, d := range all {
		if err := WaitEstablished(ctx, c, d.name); err != nil {
			return err
		}
	}
	return nil
}

// errGoing says that a definition is being deleted: the server takes changes of it, and removes it all the same.
var errGoing = errors.New("it is being deleted")

// installGone installs a definition as soon as the one that is being deleted has gone.
func installGone(ctx context.Context, c *kube.Client, d definition) (did string, err error) {
	for {
		did, err = installCRD(ctx, c, d)
		if err == nil || !errors.Is(err, errGoing) && ctx.Err() == nil {
			return did, err
		}
		select {
		case <-ctx.Done():
			if cause := new(Interrupted); errors.As(context.Cause(ctx), cause) {
				return "", fmt.Errorf("%s is being deleted: %w", d.name, cause)
			}
			return "", fmt.Errorf("%s: %w: %s", d.name, errTooLong, holders(context.WithoutCancel(ctx), c, d))
		case <-time.After(goingPoll):
		}
	}
}

var errTooLong = errors.New("it is still being deleted at the end of --timeout")

const (
	// goingPoll is how often a definition that is being deleted is looked at: finalizers take seconds.
	goingPoll = time.Second
	// maxHolders is how many of the objects that hold a definition are named.
	maxHolders = 5
	// cleanup is the finalizer of the API server itself: it stays until no object of the kind is left.
	cleanup = "customresourcecleanup.apiextensions.k8s.io"
)

// instance is what is read of an object of a definition that is being deleted.
type instance struct {
	kube.Meta `json:"metadata"`
}

// holders says what keeps a definition that is being deleted.
func holders(ctx context.Context, c *kube.Client, d definition) string {
	var live crdState
	if err := c.Get(ctx, crdResource, kube.Key{Name: d.name}, &live); err != nil {
		return "what holds it is not known: " + kube.Explain(err)
	}
	var held []string
	for _, f := range live.Finalizers {
		if f != cleanup {
			held = append(held, "its finalizer "+kube.Printable(f, maxHolder))
		}
	}
	r, err := definedResource(d)
	if err != nil {
		return err.Error()
	}
	list, err := kube.List[*instance](ctx, c, kube.Query{Resource: r}, kube.ListOptions{})
	if err != nil {
		held = append(held, "objects that cannot be listed ("+kube.Explain(err)+")")
		list = kube.ListResult[*instance]{}
	}
	for i, o := range list.Items {
		if i == maxHolders {
			held = append(held, fmt.Sprintf("%d more", len(list.Items)-i))
			break
		}
		text := r.Kind + " " + o.Key().String()
		if len(o.Finalizers) > 0 {
			text += " (finalizer " + kube.Printable(strings.Join(o.Finalizers, ", "), maxHolder) + ")"
		}
		held = append(held, text)
	}
	if len(held) == 0 {
		return "nothing holds it any more"
	}
	return "held by " + strings.Join(held, ", ")
}

// maxHolder bounds how much of finalizers is printed: the API server takes names of any number.
const maxHolder = 200

// definedResource returns the resource that a definition defines, in its first version.
func definedResource(d definition) (kube.Resource, error) {
	text := func(path ...string) string { return scalar(lookup(d.object, path...)) }
	versions, _ := lookup(d.object, "spec", "versions").([]any)
	if len(versions) == 0 {
		return kube.Resource{}, fmt.Errorf("parse embedded CRD %s: it has no version", d.name)
	}
	first, _ := versions[0].(map[string]any)
	return kube.Resource{Group: text("spec", "group"), Version: scalar(first["name"]),
		Plural: text("spec", "names", "plural"), Kind: text("spec", "names", "kind")}, nil
}

// crdState is the part of a CRD in the cluster that installing reads.
type crdState struct {
	kube.Meta `json:"metadata"`
	Status    struct {
		StoredVersions []string `json:"storedVersions"`
		Conditions     []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// keepsStored fails where objects may be stored in a version that the definition does not have: the server could not
// read them any more.
func keepsStored(ctx context.Context, c *kube.Client, d definition) error {
	var live crdState
	if err := c.Get(ctx, crdResource, kube.Key{Name: d.name}, &live); err != nil && !kube.IsNotFound(err) {
		return err
	}
	versions, _ := lookup(d.object, "spec", "versions").([]any)
	for _, stored := range live.Status.StoredVersions {
		if !slices.ContainsFunc(versions, func(v any) bool { return lookup(v.(map[string]any), "name") == stored }) {
			return fmt.Errorf("the cluster may have objects stored as %s, which this skiff does not define, so "+
				"nothing is changed; use a skiff that defines it, or migrate the objects and take it out of "+
				"status.storedVersions", stored)
		}
	}
	return nil
}

func installCRD(ctx context.Context, c *kube.Client, d definition) (did string, err error) {
	key := kube.Key{Name: d.name}
	var before, after crdState
	if err := c.Get(ctx, crdResource, key, &before); err != nil && !kube.IsNotFound(err) {
		return "", err
	}
	if before.Deleting() {
		return "", errGoing
	}
	// Force: this version decides the fields that it sets, whoever wrote them last (an older skiff, kubectl, Helm).
	if err := c.Patch(ctx, crdResource, key, kube.ApplyPatch, d.object, &after,
		kube.WriteOptions{FieldManager: FieldManager, Force: true}); err != nil {
		return "", err
	}
	if after.Deleting() { // since it was read
		return "", errGoing
	}
	switch before.ResourceVersion {
	case "":
		return "created", nil
	case after.ResourceVersion:
		return "unchanged", nil
	}
	return "updated", nil
}

// WaitEstablished waits until the server serves the resource that a CRD defines.
func WaitEstablished(ctx context.Context, c *kube.Client, name string) error {
	said := "it has no status yet"
	for {
		var crd crdState
		if err := c.Get(ctx, crdResource, kube.Key{Name: name}, &crd); err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for CRD %s: %w", name, err)
		}
		for _, cond := range crd.Status.Conditions {
			switch {
			case cond.Type == "Established" && cond.Status == "True":
				return nil
			case cond.Type == "NamesAccepted" && cond.Status == "False":
				return fmt.Errorf("wait for CRD %s: the server does not accept its names: %s", name, cond.Message)
			case cond.Type == "Established":
				said = cond.Message
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for CRD %s: %w: %s", name, context.Cause(ctx), said)
		case <-time.After(200 * time.Millisecond): // a server usually takes less than a second
		}
	}
}
