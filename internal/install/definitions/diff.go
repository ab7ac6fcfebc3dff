package definitions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"skiff/internal/install/check"
	"skiff/internal/runtime/kube"
)

// Diff writes which fields Install would change, as the server says in a dry run, and returns whether there are any.
func Diff(ctx context.Context, c *kube.Client, out io.Writer) (differ bool, err error) {
	all, err := All()
	if err != nil {
		return false, err
	}
	for _, d := range all {
		if err := keepsStored(ctx, c, d); err != nil {
			return false, fmt.Errorf("skiff crds install would refuse CRD %s: %w", d.Name, err)
		}
		text, err := difference(ctx, c, d)
		if err != nil {
			return false, fmt.Errorf("compare CRD: %w", err)
		}
		differ = differ || text != ""
		if _, err := io.WriteString(out, text); err != nil {
			return false, err
		}
	}
	return differ, nil
}

// difference returns what installing a definition would change, "" for nothing.
func difference(ctx context.Context, c *kube.Client, d Definition) (string, error) {
	key := kube.Key{Name: d.Name}
	var live, planned map[string]any
	if err := c.Get(ctx, resource, key, &live); kube.IsNotFound(err) {
		return d.Name + " is not installed; `skiff crds install` creates it, `skiff crds print` shows it\n", nil
	} else if err != nil {
		return "", err
	}
	o := kube.WriteOptions{FieldManager: fieldManager, Force: true, DryRun: true}
	if err := c.Patch(ctx, resource, key, kube.ApplyPatch, d.Object, &planned, o); err != nil {
		return "", err
	}
	changed, more, err := check.Differences(planned, live)
	if err != nil {
		return "", err
	}
	removed, less, err := check.Differences(live, planned)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, path := range changed {
		fmt.Fprintf(&text, "%s: %s\n", d.Name, path)
	}
	for _, path := range removed {
		if !slices.Contains(changed, path) {
			fmt.Fprintf(&text, "%s: %s (removed)\n", d.Name, path)
		}
	}
	if more > len(changed) || less > len(removed) {
		fmt.Fprintf(&text, "%s: and more\n", d.Name)
	}
	return text.String(), nil
}
