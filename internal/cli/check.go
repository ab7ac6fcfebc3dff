package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/install/check"
	"skiff/internal/install/definitions"
	"skiff/internal/operators/reload"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

// checkFlags are those of `skiff check`.
type checkFlags struct {
	connection  kubeconfig.Flags
	controllers []string
	namespaces  []string
	selector    string
	election    bool
	policies    bool
	reloader    bool
	electionIn  string
	output      string
	sources     sourceFlags
}

func newCheck() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether a cluster has all that skiff needs",
		Long: `Asks the API server what 'skiff run' will need: whether it answers, its version, the custom resource
definitions, whether the namespaces exist, and whether this user has each right that the controllers declare, in each
of them. It changes nothing. Run it as skiff's own user: with its token, with --as, or in its pod.

Missing rights are printed as a role and its binding; -o yaml prints nothing else, for kubectl apply.

The admission policies of 'skiff manifests --policies' are optional: their absence is reported, and with --policies
it counts as missing.

With --controllers reload, each workload that has opted in is listed with the ConfigMaps and Secrets for which it
would restart, and each annotation that does not count: a mistyped name, a value that is not
understood, a list that names what does not exist. --reloader-annotations does the same for the annotations of
Stakater's Reloader, which ignores such mistakes silently; it checks what reload needs, and other controllers only
where --controllers names them. Of ConfigMaps and Secrets, the metadata alone is read, so keys are not looked at; nor
are CronJobs and Jobs, whose next pods read the present content. An annotation that does not count is something to
look at: the exit code is 3.

Exit codes: 0 nothing is missing, 3 something is missing or does not count, 1 failed (it could not find out), 2 wrong
usage.`,
		Example: `  skiff check
  skiff check --as system:serviceaccount:skiff:skiff --leader-elect --leader-election-namespace skiff
  skiff check --token-file skiff.token --watch-namespaces shop,blog -o yaml > missing.yaml
  skiff check --as system:serviceaccount:skiff:skiff --watch-namespace-selector team=shop
  skiff check --reloader-annotations`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addConnectionFlags(cmd, &f.connection)
	fs := cmd.Flags()
	ListVar(cmd, &f.controllers, "controllers", ControllerNames(),
		"`names` of the controllers, separated by commas")
	ListVar(cmd, &f.namespaces, "watch-namespaces", nil,
		"`namespaces` to work in, separated by commas (default all)")
	fs.StringVar(&f.selector, "watch-namespace-selector", "",
		"label `selector` of the namespaces to work in: those that it selects now are checked")
	fs.BoolVar(&f.election, "leader-elect", false, "check the rights of leader election, too")
	fs.StringVar(&f.electionIn, "leader-election-namespace", "",
		"`namespace` of the Lease (default: that of the kubeconfig context or the pod)")
	fs.BoolVar(&f.policies, "policies", false, "exit with 3 also where an admission policy is not in force")
	fs.BoolVar(&f.reloader, "reloader-annotations", false,
		"list also for what the annotations of Stakater's Reloader restart workloads, and what is wrong in them")
	fs.StringVarP(&f.output, "output", "o", "", "`format`: json, or yaml for the missing rights alone")
	f.sources.add(cmd)
	InGroup(cmd, groupControllers, "controllers", "watch-namespaces", "watch-namespace-selector", "leader-elect",
		"leader-election-namespace", "reloader-annotations")
	return cmd
}

func (f *checkFlags) run(cmd *cobra.Command) error {
	f.addReload(cmd.Flags().Changed("controllers"))
	if err := checkControllers(f.controllers); err != nil {
		return err
	}
	if err := f.sources.check(); err != nil {
		return err
	}
	if err := checkNamespaces("--watch-namespaces", f.namespaces); err != nil {
		return err
	}
	if err := checkSelector(f.selector, f.namespaces); err != nil {
		return err
	}
	if f.electionIn != "" && !namespaceName().MatchString(f.electionIn) {
		return Usagef("--leader-election-namespace: %q is not a valid namespace name", f.electionIn)
	}
	if !slices.Contains([]string{"", "json", "yaml"}, f.output) {
		return wrongChoice("--output", f.output, []string{"json", "yaml"})
	}
	client, namespace, err := connect(f.connection, warnTo(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer client.Close()
	o := check.Options{Client: client, Rights: rightsOf(f.controllers, f.sources.Sources),
		Templates: templatesOf(f.controllers), NeedPolicies: f.policies,
		Namespaces: slices.Compact(slices.Sorted(slices.Values(f.namespaces))),
		Selector:   f.selector, SelectRights: controller.SelectRights}
	if f.election {
		o.Election, o.ElectionNamespace = electionRights, namespace
		if f.electionIn != "" {
			o.ElectionNamespace = f.electionIn
		}
	}
	if o.Definitions, err = definitions.All(); err != nil {
		return err
	}
	report, err := check.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	addNextSteps(&report, "")
	addAbsent(cmd.Context(), client, &report, o.Namespaces)
	survey, err := f.survey(cmd.Context(), client, &report)
	if err != nil {
		return err
	}
	if err := f.print(cmd.OutOrStdout(), report, survey); err != nil {
		return err
	}
	if !report.OK {
		return errDiffer
	}
	return nil
}

const (
	applyPolicies = "`skiff manifests --policies | kubectl apply -f -`"
	// applyAgain makes the installed policy anew: without the flags of the first time the result would be a weaker
	// policy, or another policy.
	applyAgain = applyPolicies + " with the flags that it was made with (--namespaced, -- --template-policy)"
)

// nextSteps are the commands that make the missing parts.
var nextSteps = map[check.Next]string{
	check.NextInstall:    "run `skiff crds install`",
	check.NextUpdate:     "`skiff crds diff` shows all, `skiff crds install` updates it",
	check.NextAskInstall: "an administrator runs `skiff crds install`",
	check.NextAskOrReplace: "run the skiff that this definition belongs to, or have an administrator run " +
		"`skiff crds install`",
	check.NextPolicy:        "optional: " + applyPolicies,
	check.NextUpdatePolicy:  "update it: " + applyAgain,
	check.NextBindPolicy:    "make one: " + applyAgain,
	check.NextBindPolicyAll: "make one: " + applyAgain + ", or check some with --watch-namespaces",
}

// addNextSteps adds to each detail of a report the command that comes next. flag is added to those of `skiff crds`.
func addNextSteps(r *check.Report, flag string) {
	crds := strings.NewReplacer("crds install", "crds install"+flag, "crds diff", "crds diff"+flag)
	add := func(detail *string, next check.Next) {
		if step := nextSteps[next]; step != "" {
			*detail = strings.TrimPrefix(*detail+"; "+crds.Replace(step), "; ")
		}
	}
	for i := range r.Definitions {
		add(&r.Definitions[i].Detail, r.Definitions[i].Next)
	}
	for i := range r.Policies {
		add(&r.Policies[i].Detail, r.Policies[i].Next)
	}
}

// addAbsent adds the namespaces of --watch-namespaces that do not exist, for which skiff would wait.
func addAbsent(ctx context.Context, c *kube.Client, r *check.Report, namespaces []string) {
	missing, _ := missingOf(ctx, c, namespaces) // unknown: the rights there are checked all the same
	for _, name := range missing {
		r.OK = false
		r.Absent = append(r.Absent, check.Absent{Namespace: name,
			Detail: cmp.Or(askNamespace(ctx, c, name), "create it, or correct --watch-namespaces")})
	}
}

func (f *checkFlags) print(out io.Writer, r check.Report, survey *reload.Survey) error {
	switch f.output {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(checkReport{r, survey})
	case "yaml":
		_, err := io.WriteString(out, r.Manifest)
		return err
	}
	_, err := io.WriteString(out, checkText(r, f.policies, surveyText(survey)))
	return err
}

// maxSelected bounds the names of selected namespaces, which -o json has in full.
const maxSelected = 300

// checkLine is a line of a report. A line about a missing part begins with !.
func checkLine(ok bool, format string, args ...any) string {
	mark := "  "
	if !ok {
		mark = "! "
	}
	return mark + fmt.Sprintf(format, args...) + "\n"
}

// checkText is the report as text. needPolicies says that
// admission policies are needed; more are lines about something else that was checked.
func checkText(r check.Report, needPolicies bool, more string) string {
	var b strings.Builder
	line := func(ok bool, format string, args ...any) { b.WriteString(checkLine(ok, format, args...)) }
	tested := "tested with skiff"
	if !r.Tested {
		tested = "not tested with skiff, which is with " + check.TestedVersions()
	}
	line(true, "server      %s answers in %.1f ms", r.Server, r.LatencyMS)
	line(true, "version     %s, %s", r.Version, tested)
	line(true, "user        %s", r.User)
	for _, d := range r.Definitions {
		line(d.State == check.Installed, "definition  %s: %s, %s", d.Name, d.State, d.Detail)
	}
	for _, p := range r.Policies {
		line(p.State == check.Installed || !needPolicies, "policy      %s: %s, %s", p.Name, p.State, p.Detail)
	}
	for _, a := range r.Absent {
		line(false, "namespace   %s does not exist; %s", a.Namespace, a.Detail)
	}
	if s := r.Selection; s != nil && !s.Allowed {
		line(false, "namespaces  of --watch-namespace-selector %s: this user may not list them, so that the rights "+
			"of the controllers in them are not checked", s.Selector)
	} else if s != nil && len(s.Namespaces) == 0 {
		line(false, "namespaces  none has the labels %s: label one, or correct --watch-namespace-selector; the "+
			"rights of the controllers are not checked", s.Selector)
	} else if s != nil {
		line(true, "namespaces  %d with the labels %s: %s", len(s.Namespaces), s.Selector,
			kube.Printable(strings.Join(s.Namespaces, ", "), maxSelected))
	}
	if r.GrantsAll {
		line(true, "rights      this server grants everything to every user: it has no roles (skiff-dev --rbac has), "+
			"so that the rights below are those of any user")
	}
	for _, s := range r.Scopes {
		where := "in all namespaces"
		if s.Namespace != "" {
			where = "in namespace " + s.Namespace
		}
		missing := 0
		for _, m := range s.Missing {
			missing += len(m.Verbs)
		}
		line(missing == 0, "rights      of %s %s: %d of %d granted", s.For, where, s.Checked-missing, s.Checked)
		for _, m := range s.Missing {
			line(false, "              missing: %s %s", strings.Join(m.Verbs, ", "), m.Resource)
		}
	}
	b.WriteString(more)
	if r.OK {
		b.WriteString("nothing is missing\n")
	}
	if r.Manifest != "" {
		b.WriteString("\nThis grants what is missing, when an administrator applies it (-o yaml prints nothing " +
			"else):\n\n" + r.Manifest)
	}
	if r.Reader != "" {
		b.WriteString("\nskiff run does not need it, but with this, skiff check compares whole definitions:\n\n" +
			r.Reader)
	}
	return b.String()
}
