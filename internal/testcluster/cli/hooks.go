package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// hooksFlags are the flags of `skiff-dev hooks`.
type hooksFlags struct {
	devFlags
	hooks cli.HookDir
	dir   string
}

func newHooks(cel *apiserver.CEL) *cobra.Command {
	f := hooksFlags{devFlags: devFlags{cel: cel, replicas: 1}}
	cmd := &cobra.Command{
		Use:   "hooks DIRECTORY",
		Short: "Try a hook controller: a cluster, its definition, its hook and its example, in one terminal",
		Long: `Starts a test cluster in this process and does with a directory, such as 'skiff hooks init' writes, what
one would do by hand: it installs the custom resource definitions, creates the other objects (those of the
sub-directory example, too), runs the hook controllers, and serves the live page. Save the hook and all objects are reconciled again; save a definition, the
controller or an example, and it is applied again.

stderr says what the controllers do. What a hook prints on stderr is there, too. Where it fails, its error is shown
once, with its file and line, and then how often it came again. Everything is lost when the process ends.`,
		Example: `  skiff hooks init webshop --lang python
  skiff-dev hooks webshop`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return cli.Usagef("want the DIRECTORY of a hook controller, got %d arguments; `skiff hooks init "+
					"DIRECTORY` writes one", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.dir = args[0]
			return f.run(cmd)
		},
	}
	f.hooks.Add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "loopback `address` of the API server; port 0 picks a free port")
	fs.StringVar(&f.kubeconfig, "kubeconfig-out", "", "`file` to write the kubeconfig to, removed at the end "+
		"(default skiff/dev.kubeconfig in the user's cache directory)")
	fs.StringVar(&f.version, "kubernetes-version", "", versionHelp)
	fs.StringVar(&f.ready, "ready-file", "", "`file` to write when everything is ready, removed at the end")
	cli.InGroup(cmd, cli.GroupCluster, "kubernetes-version")
	cli.InGroup(cmd, cli.GroupServing, "listen", "kubeconfig-out")
	cli.InGroup(cmd, cli.GroupAdvanced, "ready-file")
	return cmd
}

func (f *hooksFlags) run(cmd *cobra.Command) (err error) {
	if err := checkLoopback("--listen", f.listen); err != nil {
		return err
	}
	if err := f.hooks.Read(cmd, f.dir); err != nil {
		return err
	}
	log, err := f.hooks.Logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	files, err := cli.Until(cmd.Context(), f.read)
	if err != nil {
		return cli.Ended(cmd.Context(), err)
	}
	f.simulate = partNames()
	remove, err := f.chooseKubeconfig()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	o, err := f.options(log.V(1)) // what the cluster logs is of less interest here
	if err != nil {
		return err
	}
	d, err := cli.Until(cmd.Context(), func() (*devCluster, error) { return newDevCluster(o) })
	if err != nil {
		return cli.Ended(cmd.Context(), err)
	}
	return d.run(cmd.Context(), "", func(ctx context.Context, client *kube.Client) error {
		if err := f.prepare(ctx, d, client, files); err != nil {
			return cli.Ended(ctx, err)
		}
		intro := func(page string) { f.printIntro(cmd.OutOrStdout(), d, page, files) }
		if !f.hooks.OnPage(intro) {
			intro("none")
		}
		follow := func(ctx context.Context) error { f.follow(ctx, client, log); return nil }
		return cli.During(ctx, follow, func(ctx context.Context) error {
			return f.hooks.Run(ctx, d.forControllers(client), log)
		})
	})
}

// dirFiles are the objects of the directory beside the controllers.
type dirFiles struct {
	definitions, examples []manifest
}

func (f *hooksFlags) read() (files dirFiles, err error) {
	var all []manifest
	for _, name := range f.names() {
		found, err := readManifest(name)
		if err != nil {
			return files, err
		}
		all = append(all, found...)
	}
	for _, m := range all {
		version, _ := m.object["apiVersion"].(string)
		switch {
		case m.isCRD():
			files.definitions = append(files.definitions, m)
		case !strings.HasPrefix(version, hookGroup):
			files.examples = append(files.examples, m)
		}
	}
	return files, nil
}

// exampleDirectory is the sub-directory in which a directory may have its examples.
const exampleDirectory = "example"

// names are those of the files with objects: those beside the controllers, and those of exampleDirectory.
func (f *hooksFlags) names() (names []string) {
	for _, dir := range append(f.hooks.Directories(), filepath.Join(f.dir, exampleDirectory)) {
		if found, err := manifestFiles(dir); err == nil { // else that is named when the controllers are read
			names = append(names, found...)
		}
	}
	return names
}

// hookGroup begins the apiVersion of hook controllers, which are read from their files.
const hookGroup = "metacontroller.k8s.io/"

// prepare gives the cluster its definitions and examples.
func (f *hooksFlags) prepare(ctx context.Context, d *devCluster, client *kube.Client, files dirFiles) error {
	all, err := definitions.Hooks() // rolling updates need one of them
	if err == nil {
		err = definitions.Install(ctx, client, all, definitions.Options{Timeout: 30 * time.Second}, io.Discard)
	}
	if err == nil {
		err = f.load(ctx, client, files)
	}
	if err == nil {
		err = d.begin(ctx, client)
	}
	if err == nil {
		err = d.writeReadyFile()
	}
	return err
}

func (f *hooksFlags) load(ctx context.Context, client *kube.Client, files dirFiles) error {
	return loadManifests(ctx, client, slices.Concat(files.definitions, files.examples))
}

// followEvery is how often the files of the directory are looked at.
const followEvery = 500 * time.Millisecond

// follow applies the definitions and examples again when their files change, until ctx ends. The hooks and their
// controllers are followed where they run.
func (f *hooksFlags) follow(ctx context.Context, client *kube.Client, log logr.Logger) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for before := f.state(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := f.state()
		if now == before {
			continue
		}
		before = now
		files, err := f.read()
		if err == nil {
			err = f.load(ctx, client, files)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Info("the files have a mistake: what there was before stays", kube.Warn("error", err.Error())...)
		default:
			log.Info("applied the definitions and examples again")
		}
	}
}

// state is another text when a file with objects has changed.
func (f *hooksFlags) state() string {
	var out strings.Builder
	for _, name := range f.names() {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&out, "%s %d %d;", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return out.String()
}

func (f *hooksFlags) printIntro(out io.Writer, d *devCluster, page string, files dirFiles) {
	row := func(name, text string) { fmt.Fprintf(out, "%-12s %s\n", name, text) }
	fmt.Fprintln(out)
	row("live page", page)
	row("API server", fmt.Sprintf("%s  (Kubernetes %s, embedded; ends with this process)", d.to.Server,
		d.o.api.Features.Version()))
	row("controller", strings.Join(f.hooks.Names(), ", "))
	for _, m := range files.definitions {
		row("definition", f.shown(m))
	}
	for _, m := range files.examples {
		row("example", f.shown(m))
	}
	fmt.Fprintf(out, "\nIn another terminal:\n\n  export KUBECONFIG='%s'\n  kubectl get %s\n", f.kubeconfig,
		strings.Join(f.hooks.Resources(), ","))
	if names := f.hooks.Hooks(); len(names) > 0 {
		fmt.Fprintf(out, "\nEdit and save, and look here: %s\n", strings.Join(f.near(names), ", "))
	}
	fmt.Fprintln(out)
}

// shown names an object and its file.
func (f *hooksFlags) shown(m manifest) string {
	name, _ := field(m.object, "metadata name").(string)
	if kind, _ := m.object["kind"].(string); !m.isCRD() {
		name = kind + " " + name
	}
	return name + "  (" + m.file + ")"
}

// near names files as the directory was named.
func (f *hooksFlags) near(names []string) (out []string) {
	whole, err := filepath.Abs(f.dir)
	for _, name := range names {
		if below, err2 := filepath.Rel(whole, name); err == nil && err2 == nil && !strings.HasPrefix(below, "..") {
			name = filepath.Join(f.dir, below)
		}
		out = append(out, name)
	}
	return out
}
