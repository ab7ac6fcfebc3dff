package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/spec"
	"skiff/internal/install/manifests"
	"skiff/internal/runtime/kube"
)

// hooksManifestsFlags are those of `skiff hooks manifests`.
type hooksManifestsFlags struct {
	rights    hookRights
	namespace string
	image     string
	sidecar   string
	runtime   string
	directory string
	replicas  int
	crds      bool
}

func newHooksManifests() *cobra.Command {
	var f hooksManifestsFlags
	cmd := &cobra.Command{
		Use:   "manifests {-f FILE | --from-cluster} --image IMAGE [-- FLAGS OF skiff hooks run]",
		Short: "Print the manifests that run hook controllers in a cluster",
		Long: `Prints all that a cluster needs to run the controllers in the files: the namespace, a service account
with the rights that they need and no others, two replicas with leader election, and a PodDisruptionBudget. The image
has skiff as its entrypoint and, in --directory, the same files with the programs that they name; the Dockerfile of
'skiff hooks init' makes it. With --from-cluster, skiff runs the controllers of the cluster in place of metacontroller,
with the rights of those that are there now; print and apply it again for others.

With --sidecar, the hooks are webhooks on localhost, which a second container of the pod serves from this image; it
gets no credential. --image is then that of skiff itself, and the controllers come in a ConfigMap.

With --runtime, no image has to be built: the files of the hooks, which are all in one directory, come in a ConfigMap,
and skiff is copied into a container of this image, which has what runs them. --image is that of skiff itself.

With --namespaced, skiff works in these namespaces only, and all that is printed is namespaced. They must exist.
Arguments after -- are added to those of 'skiff hooks run'.`,
		Example: `  skiff hooks manifests -f . --image registry.example.com/webshop:v1 | kubectl apply -f -
  skiff hooks manifests -f controller.yaml --image webshop --namespaced shop --related configmaps
  skiff hooks manifests -f . --image webshop:v1 --crds | kubectl apply -f -      # into an empty cluster
  skiff hooks manifests -f . --image skiff:v1 --sidecar webshop-hook:v1 | kubectl apply -f -
  skiff hooks manifests -f . --image skiff:v1 --runtime python:3-slim | kubectl apply -f -
  skiff hooks manifests -f . --image webshop -- --workers 2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyAfterDash(cmd, args); err != nil {
				return err
			}
			if err := checkRunFlags(newHooksRun(), "skiff hooks run", ownHooksRunFlags, args); err != nil {
				return err
			}
			controllers, err := f.check(cmd)
			if err != nil {
				return err
			}
			text, err := f.definitions()
			if err != nil {
				return err
			}
			files, err := f.hookFiles(controllers)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text+f.yaml(controllers, files, args))
			if err != nil {
				return fmt.Errorf("print the manifests: %w", err)
			}
			return f.rights.files.exit(err, ExitFailed)
		},
	}
	f.rights.add(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.namespace, "namespace", "n", "",
		"`namespace` of skiff itself (default skiff, or the first of --namespaced)")
	fs.StringVar(&f.image, "image", "", "`name` of the image, best with its digest (NAME@sha256:...)")
	fs.StringVar(&f.sidecar, "sidecar", "", "`name` of the image that serves the webhooks on localhost")
	fs.StringVar(&f.runtime, "runtime", "", "`name` of the image that has what runs the hooks, such as python:3-slim")
	fs.StringVar(&f.directory, "directory", "/hooks", "`directory` of the image in which the controllers are")
	fs.BoolVar(&f.crds, "crds", false, "print the CustomResourceDefinitions in the files of -f first")
	fs.IntVar(&f.replicas, "replicas", 2, "how many pods; one works, the others stand by")
	return cmd
}

// check checks the flags, sets the defaults and reads the controllers.
func (f *hooksManifestsFlags) check(cmd *cobra.Command) ([]*spec.Controller, error) {
	if problem := imageProblem(f.image); problem != "" {
		return nil, Usagef("--image %q: %s", f.image, problem)
	}
	if problem := imageProblem(f.sidecar); f.sidecar != "" && problem != "" {
		return nil, Usagef("--sidecar %q: %s", f.sidecar, problem)
	}
	if problem := imageProblem(f.runtime); f.runtime != "" && problem != "" {
		return nil, Usagef("--runtime %q: %s", f.runtime, problem)
	}
	if f.sidecar != "" && f.runtime != "" {
		return nil, Usagef("--sidecar and --runtime: give one of them")
	}
	if f.runtime != "" && f.rights.files.cluster {
		return nil, Usagef("--runtime: it is for the controllers of files (-f)")
	}
	if f.crds && f.rights.files.cluster {
		return nil, Usagef("--crds: it is for the controllers of files (-f)")
	}
	if f.replicas < 1 {
		return nil, Usagef("--replicas %d: must be at least 1", f.replicas)
	}
	if !strings.HasPrefix(f.directory, "/") || strings.ContainsFunc(f.directory, isControl) {
		return nil, Usagef("--directory %q: must be an absolute path", f.directory)
	}
	if err := checkNamespaces("--namespaced", f.rights.namespaced); err != nil {
		return nil, err
	}
	if f.namespace == "" {
		f.namespace = cmp.Or(append(sorted(f.rights.namespaced), home)...)
	}
	if err := checkNamespaces("--namespace", []string{f.namespace}); err != nil {
		return nil, err
	}
	f.rights.account = f.namespace + "/" + f.rights.name
	controllers, err := f.rights.check(cmd)
	if err != nil {
		return nil, err
	}
	return controllers, f.checkSidecar(controllers)
}

// definitions returns the CustomResourceDefinitions in the files as documents of YAML, if they are asked for.
func (f *hooksManifestsFlags) definitions() (string, error) {
	if !f.crds {
		return "", nil
	}
	objects, err := spec.ReadObjects(f.rights.files.paths)
	if err != nil {
		return "", Usagef("-f: %w", err)
	}
	text := ""
	for _, o := range objects {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := kube.Unmarshal(o.Raw, &head); err == nil && head.Kind == "CustomResourceDefinition" {
			text += plainJSON(o.Raw) + "\n---\n"
		}
	}
	if text == "" {
		return "", Usagef("--crds: there is no CustomResourceDefinition in %s",
			strings.Join(f.rights.files.paths, ", "))
	}
	return text, nil
}

// checkSidecar checks --sidecar: all programs would run in the container of skiff, and nothing else serves localhost.
func (f *hooksManifestsFlags) checkSidecar(controllers []*spec.Controller) error {
	if f.sidecar != "" && f.rights.files.cluster {
		return Usagef("--sidecar: it is for the controllers of files (-f)")
	}
	served := false
	for _, c := range controllers {
		for _, h := range c.Hooks() {
			switch {
			case h.Exec != nil && f.sidecar != "":
				return Usagef("--sidecar: %s %s has an exec hook, whose program would have to be in skiff's image; "+
					"make it a webhook on localhost, or leave --sidecar out", c.Kind, c.Name)
			case h.Webhook != nil && isLocal(h.Webhook.URL):
				served = true
				if f.sidecar == "" {
					return Usagef("%s %s: nothing in the pod serves %s; name the image that does with --sidecar",
						c.Kind, c.Name, h.Webhook.URL)
				}
				if port := portOf(h.Webhook.URL); slices.Contains(manifests.Ports, port) {
					return Usagef("%s %s: port %s of %s is skiff's own in that pod; use another", c.Kind, c.Name, port,
						h.Webhook.URL)
				}
			}
		}
	}
	if f.sidecar != "" && !served {
		return Usagef("--sidecar: no hook has a webhook on localhost, such as http://127.0.0.1:9000/sync")
	}
	return nil
}

func portOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "" // the spec has checked it
	}
	return u.Port()
}

// plainJSON returns JSON in lines, and with the escapes that YAML has, too: a block of YAML would take some characters
// for ends of lines.
func plainJSON(text []byte) string {
	var lines bytes.Buffer
	if json.Indent(&lines, text, "", "  ") != nil {
		return string(text) // the object was made of JSON, and is JSON
	}
	var out strings.Builder
	for _, r := range lines.String() {
		if r < 0x7f || r > 0xffff { // YAML takes these, and not the two escapes of JSON for the latter
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, `\u%04x`, r)
	}
	return out.String()
}

// isLocal says whether a URL points to this machine, or this pod.
func isLocal(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

// isControl is a character that no path has which someone typed.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// ownHooksRunFlags are flags of `skiff hooks run` that the manifests set, with the flag of the manifests that decides.
var ownHooksRunFlags = map[string]string{"file": "--directory", "from-cluster": "--from-cluster",
	"target-label-selector": "--target-label-selector",
	"watch-namespaces":      "--namespaced", "leader-elect": "the manifests", "leader-election-id": "--name",
	"health-probe-bind-address": "the manifests", "metrics-bind-address": "the manifests"}

func (f *hooksManifestsFlags) yaml(controllers []*spec.Controller, files *manifests.HookFiles,
	runFlags []string) string {
	account := f.rights.serviceAccount()
	command := []string{"hooks", "run", "-f", f.directory}
	if f.rights.files.cluster {
		command = []string{"hooks", "run", "--from-cluster"}
		if f.rights.files.selector != "" {
			command = append(command, "--target-label-selector="+f.rights.files.selector)
		}
	}
	if f.runtime != "" { // the directory has files of the hooks, too, which may be YAML or JSON
		command = command[:2]
		for _, c := range controllers {
			command = append(command, "-f", strings.TrimSuffix(f.directory, "/")+"/"+controllerFile(c))
		}
	}
	memory, why := "512Mi", "skiff takes some 20 MB, and a mirror may take a third of the limit. The processes of "+
		"hooks take the rest:\none for each worker, of which there are five by default (--workers)."
	if f.sidecar != "" {
		memory, why = "128Mi", "skiff takes some 20 MB, and a mirror may take a third of the limit."
	}
	return manifests.Install{Account: account, Command: command, Image: f.image,
		Replicas: f.replicas, Namespaces: f.rights.namespaced, Rights: f.rights.rights(controllers),
		Election: electionRights, Args: append([]string{"--leader-election-id=" + account.Name}, runFlags...),
		Extra: f.rights.extra(account, controllers), Memory: memory, MemoryWhy: why, Hooks: files,
		By: "# Printed by `skiff hooks manifests`.\n"}.YAML()
}
