package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"

	"skiff/internal/cli"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/state"
)

// readState reads the copy of a cluster among the files of --load, nil if there is none, and returns the others.
func readState(paths []string) (copied *state.State, others []string, err error) {
	for _, path := range paths {
		is, err := isState(path)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("--load: %w", err)
		case !is:
			others = append(others, path)
			continue
		case copied != nil:
			return nil, nil, fmt.Errorf("--load: %s: it is the second copy of a cluster: load one", path)
		}
		if copied, err = state.Load(path); err != nil {
			return nil, nil, fmt.Errorf("--load: %w", err)
		}
	}
	return copied, others, nil
}

// isState says whether a file is a copy of a cluster. What cannot be read is not, and is an error elsewhere.
func isState(path string) (bool, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() // was only read
	text, err := io.ReadAll(io.LimitReader(f, 64))
	return state.Is(text), err
}

// loadManifests creates objects or updates those that exist: first the CRDs, which it waits for, then the namespaces,
// then everything else in the order of the files.
func loadManifests(ctx context.Context, c *kube.Client, all []manifest) error {
	rank := func(m manifest) int {
		switch {
		case m.isCRD():
			return 0
		case m.object["kind"] == "Namespace":
			return 1
		}
		return 2
	}
	all = slices.Clone(all)
	sort.SliceStable(all, func(i, j int) bool { return rank(all[i]) < rank(all[j]) })
	known := map[string]kube.Resource{}
	var crds []string
	for i, m := range all {
		name, err := loadManifest(ctx, c, known, m)
		if err != nil {
			return err
		}
		if m.isCRD() {
			crds = append(crds, name)
		}
		if i+1 == len(all) || !all[i+1].isCRD() {
			for _, name := range crds {
				if err := definitions.WaitEstablished(ctx, c, name); err != nil {
					return err
				}
			}
			crds = nil
		}
	}
	return nil
}

// loadManifest creates or updates one object and returns its name. known has the resources that were looked up before,
// by apiVersion and kind.
func loadManifest(ctx context.Context, c *kube.Client, known map[string]kube.Resource, m manifest) (string, error) {
	version, kind := m.object["apiVersion"].(string), m.object["kind"].(string)
	r, ok := known[version+" "+kind]
	if !ok {
		var err error
		if r, err = resourceOf(ctx, c, version, kind); err != nil {
			return "", fmt.Errorf("load %s: %w", m.place().At("kind"), err)
		}
		known[version+" "+kind] = r
	}
	name, _ := field(m.object, "metadata name").(string)
	namespace, _ := field(m.object, "metadata namespace").(string)
	switch {
	case r.ClusterScoped:
		namespace = ""
	case namespace == "":
		namespace = "default"
	}
	var err error
	if name == "" { // metadata.generateName, which only a POST understands
		err = c.Create(ctx, r, namespace, m.object, nil, kube.WriteOptions{FieldManager: cli.FieldManager})
	} else {
		err = c.Patch(ctx, r, kube.Key{Namespace: namespace, Name: name}, kube.ApplyPatch, m.object, nil,
			kube.WriteOptions{FieldManager: cli.FieldManager, Force: true})
	}
	if fields := cli.FieldErrors(ctx, c, r, m.place(), err); len(fields) > 0 {
		return "", fmt.Errorf("load %s", strings.Join(fields, "; "))
	} else if err != nil {
		return "", fmt.Errorf("load %s: %w", m, err)
	}
	return name, nil
}

// resourceOf finds the resource of a kind by the discovery document of its group and version.
func resourceOf(ctx context.Context, c *kube.Client, apiVersion, kind string) (kube.Resource, error) {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	r, found, err := discovery.Find(ctx, c, group, version, strings.ToLower(kind))
	if err == nil && (!found || r.Kind != kind) {
		if near := discovery.NearestKind(ctx, c, group, version, kind); near != "" {
			return kube.Resource{}, fmt.Errorf("%s has no kind %s: did you mean %s?", apiVersion, kind, near)
		}
		return kube.Resource{}, fmt.Errorf("the server has no kind %s in %s: if it is a custom resource, pass its "+
			"definition with --crds", kind, apiVersion)
	}
	return r.Resource, err
}

// readFaults reads the file of --faults; "" has none.
func readFaults(file string) (set apiserver.FaultSet, err error) {
	if file == "" {
		return set, nil
	}
	text, err := kubeconfig.ReadFile(file)
	if err == nil {
		set, err = apiserver.ParseFaults(text)
	}
	if err != nil {
		return set, fmt.Errorf("--faults: %s: %w", file, err)
	}
	return set, nil
}
