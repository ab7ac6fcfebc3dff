package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/spec"
	"skiff/internal/install/manifests"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

// hookRights are the flags for the content of a role of hook controllers, and for the subjects.
type hookRights struct {
	files      hookFiles
	namespaced []string
	related    []string
	name       string
	account    string // NAMESPACE/NAME
	connection kubeconfig.Flags

	relatedRights []kube.Right // of related; set by check
}

func newHooksRole() *cobra.Command {
	var f hookRights
	cmd := &cobra.Command{
		Use:   "role {-f FILE | --from-cluster}",
		Short: "Print the role that hook controllers need, and its binding",
		Long: `Prints the rights that the controllers in the files need, and no others: a ClusterRole and its binding,
or with --namespaced a Role and its binding in each of these namespaces, in which the parents have to be. The Secrets
and ConfigMaps with which webhooks are reached may be read by their names only. It asks no cluster, unless with
--from-cluster for the controllers that are there.

What a customize hook names is known only once it is called: name it with --related.

An invalid controller is named on stderr, and the role is that of the others; the exit code is then 2 for one in a
file, 1 for one in the cluster.`,
		Example: `  skiff hooks role -f controller.yaml | kubectl apply -f -
  skiff hooks role -f controller.yaml --namespaced shop,blog --service-account shop/skiff
  skiff hooks role -f controller.yaml --related configmaps,deployments.apps
  skiff hooks role --from-cluster | kubectl apply -f -`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			controllers, err := f.check(cmd)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), f.yaml(controllers))
			return f.files.exit(err, ExitFailed)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.account, "service-account", "",
		"`namespace/name` of the service account that gets the role (default skiff/NAME, or with --namespaced "+
			"NAME in the first of them)")
	return cmd
}

// maxLabel is how long the value of a label may be: the name of the account is one.
const maxLabel = 63

// add adds the flags that `skiff hooks manifests` has, too.
func (f *hookRights) add(cmd *cobra.Command) {
	f.files.add(cmd)
	f.files.addCluster(cmd)
	addConnectionFlags(cmd, &f.connection)
	fs := cmd.Flags()
	ListVar(cmd, &f.namespaced, "namespaced", nil,
		"`namespaces` to work in, separated by commas, with a Role in each and no ClusterRole (default all)")
	ListVar(cmd, &f.related, "related", nil,
		"`resources` that customize hooks may name, such as configmaps,deployments.apps")
	fs.StringVar(&f.name, "name", "skiff-hooks", "`name` of all that is printed")
}

// check checks the flags, sets the defaults and reads the controllers.
func (f *hookRights) check(cmd *cobra.Command) ([]*spec.Controller, error) {
	if err := checkNamespaces("--namespaced", f.namespaced); err != nil {
		return nil, err
	}
	f.namespaced = sorted(f.namespaced)
	if !namespaceName().MatchString(f.name) {
		return nil, Usagef("--name %q: want small letters, digits and '-'", f.name)
	}
	for _, name := range sorted(f.related) {
		plural, group, qualified := strings.Cut(name, ".")
		if !namespaceName().MatchString(plural) || qualified && !kube.ValidName(group) {
			return nil, Usagef("--related %q: want RESOURCE or RESOURCE.GROUP, in small letters", name)
		}
		f.relatedRights = append(f.relatedRights, spec.RelatedRights(kube.Resource{Group: group, Plural: plural}))
	}
	if f.account == "" {
		f.account = "skiff/" + f.name
		if len(f.namespaced) > 0 {
			f.account = f.namespaced[0] + "/" + f.name
		}
	}
	namespace, name, ok := strings.Cut(f.account, "/")
	if !ok || !namespaceName().MatchString(namespace) || !kube.ValidName(name) || len(name) > maxLabel {
		return nil, Usagef("--service-account %q: want NAMESPACE/NAME", f.account)
	}
	if err := f.files.check(); err != nil {
		return nil, err
	}
	if !f.files.cluster {
		return f.files.readValid(cmd)
	}
	client, _, err := connect(f.connection, warnTo(cmd.ErrOrStderr()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return f.files.declared(cmd, client)
}

func (f *hookRights) serviceAccount() manifests.Account {
	namespace, name, _ := strings.Cut(f.account, "/")
	return manifests.Account{Namespace: namespace, Name: name}
}

// rights are those of all controllers.
func (f *hookRights) rights(controllers []*spec.Controller) (out []kube.Right) {
	for _, c := range controllers {
		out = append(out, spec.Rights(c)...)
	}
	return append(out, f.relatedRights...)
}

// yaml is what the command prints.
func (f *hookRights) yaml(controllers []*spec.Controller) string {
	rules, to := manifests.Rules(f.rights(controllers)), f.serviceAccount()
	namespaces := f.namespaced
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var docs []string
	for _, ns := range namespaces {
		docs = append(docs, to.Grant(ns, f.name, rules))
	}
	docs = append(docs, f.extra(to, controllers)...)
	return "# Printed by `skiff hooks role`.\n" + strings.Join(docs, "---\n")
}

// extra are the other roles: to find the controllers, and to read credentials for webhooks, a role in each namespace
// with credentials.
func (f *hookRights) extra(to manifests.Account, controllers []*spec.Controller) (docs []string) {
	if rights := f.files.rights(); len(rights) > 0 {
		docs = append(docs, to.Grant("", f.name+"-controllers", manifests.Rules(rights)))
	}
	var namespaces []string
	names := map[string][]string{} // of Secrets and ConfigMaps, by resource and namespace
	for _, c := range controllers {
		for _, r := range c.References() {
			of, _ := r.Object()
			in := of.Plural + " " + r.Namespace
			names[in] = append(names[in], r.Name)
			namespaces = append(namespaces, r.Namespace)
		}
	}
	for _, ns := range sorted(namespaces) {
		var rules []manifests.Rule
		for _, resource := range []string{"secrets", "configmaps"} {
			if of := sorted(names[resource+" "+ns]); len(of) > 0 {
				rules = append(rules, manifests.Rule{Resources: []string{resource}, Verbs: []string{"get"}, Names: of,
					Why: []string{"certificates and credentials of webhooks"}})
			}
		}
		docs = append(docs, to.Grant(ns, f.name+"-credentials", rules))
	}
	return docs
}
