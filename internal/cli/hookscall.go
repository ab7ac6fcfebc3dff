package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/offline"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/nearest"
	"skiff/internal/runtime/patch"
)

// The exit codes of `skiff hooks call` besides those of every command.
const (
	exitRefused = 4  // the answer is wrong
	exitLater   = 75 // the hook asks for a later call: EX_TEMPFAIL of sysexits.h
)

// hookCall are the flags of `skiff hooks call`.
type hookCall struct {
	files       hookFiles
	urls        hookURLs
	controller  string
	hook        string
	objects     offline.Files
	output      string
	maxAnswer   int
	showRequest bool
	connection  kubeconfig.Flags
	client      *kube.Client // nil: there is no cluster
	noCluster   error        // why
}

func newHooksCall() *cobra.Command {
	f := hookCall{hook: string(wire.Sync), output: "yaml", maxAnswer: 16}
	cmd := &cobra.Command{
		Use:   "call -f FILE --parent FILE",
		Short: "Call a hook with objects from files, and check its answer",
		Long: `Makes the request that the controller would make for one parent, calls the hook, and checks the answer
as the controller would. The status and custom children are checked against their definitions in -f, too, and other
children against what the cluster of the kubeconfig says about their fields, where there is one. Nothing else is asked
of a cluster. The answer is printed as it counts: with namespaces and owner references filled in, and without what the
server owns. -o diff prints what would be created, changed and deleted, compared with the children that are given.

A controller with a customize hook has that called first; of --related the request has what its rules select.

The kinds of custom resources come from definitions (CustomResourceDefinitions in -f), from the objects, and from the
answer: a kind belongs to a rule if its lower-case plural is the rule's resource. A parent without a namespace is in
default, unless its kind is cluster-scoped; without a uid it gets one.
Exit codes: 0 the answer is valid, 3 something would change (-o diff), 75 the hook asks for a later call, 1 the hook
failed, 4 the answer is refused, 2 wrong usage.`,
		Example: `  skiff hooks call -f webapp/ --parent webapp/example/hello.yaml
  skiff hooks call -f webapp/ --parent parent.yaml --children children/ -o diff
  skiff hooks call -f webapp/ --parent parent.yaml --hook finalize --show-request`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.files.add(cmd)
	f.urls.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.controller, "controller", "", "`name` of the controller, where the files have several")
	fs.StringVar(&f.objects.Parent, "parent", "", "`file` with the parent: the object that the hook is called for")
	fs.StringArrayVar(&f.objects.Children, "children", nil, "`file` or directory with the children that exist")
	fs.StringArrayVar(&f.objects.Related, "related", nil,
		"`file` or directory with other objects, of which customize selects")
	fs.StringVar(&f.hook, "hook", f.hook, "which `hook`: sync, finalize or customize")
	fs.StringVarP(&f.output, "output", "o", f.output, "`format` of the answer: yaml, json or diff")
	fs.BoolVar(&f.showRequest, "show-request", false, "print the request on stderr, as JSON")
	fs.IntVar(&f.maxAnswer, "max-answer", f.maxAnswer, "how many `MiB` an answer may have")
	addConnectionFlags(cmd, &f.connection)
	return cmd
}

// check refuses flags that make no sense.
func (f *hookCall) check() error {
	switch {
	case f.objects.Parent == "":
		return Usagef("name the parent with --parent FILE")
	case !slices.Contains([]string{"sync", "finalize", "customize"}, f.hook):
		return Usagef("--hook %q: want sync, finalize or customize", f.hook)
	case !slices.Contains([]string{"yaml", "json", "diff"}, f.output):
		return Usagef("-o %q: want yaml, json or diff", f.output)
	case f.output == "diff" && f.hook == "customize":
		return Usagef("-o diff: customize changes nothing")
	case f.maxAnswer < 1 || f.maxAnswer > 1024:
		return Usagef("--max-answer %d: want 1 to 1024 MiB", f.maxAnswer)
	}
	return f.urls.check()
}

// choose returns the controller that is meant.
func (f *hookCall) choose(all []*spec.Controller) (*spec.Controller, error) {
	var names []string
	for _, c := range all {
		if c.Name == f.controller || f.controller == "" && len(all) == 1 {
			return c, nil
		}
		names = append(names, c.Name)
	}
	if f.controller == "" {
		return nil, Usagef("-f has several controllers: choose one of %s with --controller", strings.Join(names, ", "))
	}
	return nil, Usagef("--controller %q: %s", f.controller, cmp.Or(nearest.Ask(f.controller, names, "", ""),
		"-f has "+strings.Join(names, ", ")))
}

func (f *hookCall) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	all, err := f.files.read(cmd)
	if err == nil {
		err = f.urls.fit(all)
	}
	if err != nil {
		return err
	}
	c, err := f.choose(all)
	if err != nil {
		return err
	}
	if err := f.connect(cmd); err != nil {
		return err
	}
	if f.client != nil {
		defer f.client.Close()
	}
	f.objects.Definitions = f.files.paths
	t, err := offline.New(c, f.objects)
	if err != nil {
		return usageError{err}
	}
	hook := wire.Hook(f.hook)
	if t.Hook(hook) == nil {
		return Usagef("--hook %s: %s %s has no such hook", hook, c.Kind, c.Name)
	}
	for _, w := range t.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "skiff: %s\n", w)
	}
	var rules []wire.Rule
	if c.Customize != nil {
		body, err := f.call(cmd, t, c, wire.Customize, nil)
		if err != nil {
			return err
		}
		if rules, err = t.CheckRules(body); err != nil {
			return refusedAnswer(cmd, err)
		}
		if hook == wire.Customize {
			return f.print(cmd.OutOrStdout(), map[string]any{"relatedResources": ruleValues(rules)})
		}
	}
	body, err := f.call(cmd, t, c, hook, rules)
	if err != nil {
		return err
	}
	answer, children, err := t.Check(hook, body)
	if err != nil {
		return refusedAnswer(cmd, err)
	}
	unchecked, err := f.readSchemas(cmd.Context(), t, answer, f.namesCluster(cmd))
	if err != nil {
		return err
	}
	if err := cmp.Or(t.CheckStatus(hook, answer), t.CheckChildren(hook, answer)); err != nil {
		return refusedAnswer(cmd, err)
	}
	for _, w := range slices.Concat(answer.Warnings, t.Guessed(), unchecked) {
		fmt.Fprintf(cmd.ErrOrStderr(), "skiff: %s\n", kube.Text(w))
	}
	if f.output == "diff" {
		lines, err := t.Differences(answer, children)
		if err == nil && len(lines) > 0 {
			for _, line := range lines {
				fmt.Fprintln(cmd.OutOrStdout(), kube.Text(line))
			}
			err = errDiffer
		}
		return err
	}
	return f.print(cmd.OutOrStdout(), answerValue(c.IsComposite(), answer, children))
}

// refusedAnswer prints what is wrong with an answer.
func refusedAnswer(cmd *cobra.Command, err error) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "skiff: %v\n", err)
	return ExitCode(exitRefused)
}

// call calls a hook and returns its answer, unchecked.
func (f *hookCall) call(cmd *cobra.Command, t *offline.Trial, c *spec.Controller, hook wire.Hook, rules []wire.Rule) (
	[]byte, error) {
	request, err := t.Request(hook, rules)
	if err != nil {
		return nil, err
	}
	if f.showRequest {
		var text bytes.Buffer
		if err := json.Indent(&text, request, "", "  "); err != nil {
			return nil, fmt.Errorf("print request: %w", err)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), kube.PrintableJSON(text.String()))
	}
	log, err := (&logFlags{format: "auto", brief: true}).plainLogger(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	caller, err := call.New(c, hook, t.Hook(hook), call.Options{Log: log, Workers: 1, Alone: true, At: f.urls.at,
		MaxAnswer: f.maxAnswer << 20})
	if err != nil {
		return nil, err
	}
	defer caller.Close()
	reply, err := caller.Call(cmd.Context(), call.Call{Cause: "skiff hooks call", Body: request})
	if errors.As(err, new(*call.Later)) {
		fmt.Fprintf(cmd.ErrOrStderr(), "skiff: %v\n", err)
		return nil, ExitCode(exitLater)
	}
	if errors.As(err, new(*call.Unreached)) {
		err = advisedError{err}
	}
	return reply.Body, err
}

// answerValue returns a checked answer as it is printed.
func answerValue(composite bool, a *wire.Answer, children []apply.Child) map[string]any {
	bodies := make([]any, len(children))
	for i, c := range children {
		bodies[i] = c.Body
	}
	out := map[string]any{}
	if composite {
		out["children"] = bodies
	} else {
		out["attachments"] = bodies
	}
	if a.Status != nil {
		out["status"] = a.Status
	}
	for name, changes := range map[string]map[string]*string{"labels": a.Labels, "annotations": a.Annotations} {
		if len(changes) == 0 {
			continue
		}
		values := map[string]any{}
		for key, v := range changes {
			if values[key] = nil; v != nil {
				values[key] = *v
			}
		}
		out[name] = values
	}
	if a.ResyncAfter > 0 {
		out["resyncAfterSeconds"] = float64(a.ResyncAfter) / float64(time.Second)
	}
	if a.Finalized {
		out["finalized"] = true
	}
	var events []any
	for _, e := range a.Events {
		event := map[string]any{"type": e.Type, "reason": e.Reason, "message": e.Message}
		if e.Kind != "" {
			event["object"] = map[string]any{"kind": e.Kind, "name": e.Name}
		}
		events = append(events, event)
	}
	if events != nil {
		out["events"] = events
	}
	return out
}

// ruleValues returns the rules of customize as they are printed.
func ruleValues(rules []wire.Rule) []any {
	out := []any{}
	for _, r := range rules {
		value := map[string]any{"apiVersion": r.APIVersion, "resource": r.Resource}
		for name, text := range map[string]string{"labels": r.Labels.String(), "namespace": r.Namespace,
			"namespaceLabels": r.NamespaceLabels.String(), "names": strings.Join(r.Names, ",")} {
			if text != "" {
				value[name] = text
			}
		}
		out = append(out, value)
	}
	return out
}

// print prints an answer in the format of -o.
func (f *hookCall) print(w io.Writer, answer map[string]any) error {
	if f.output == "json" {
		text, err := patch.Encode(answer)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := json.Indent(&out, text, "", "  "); err != nil {
			return fmt.Errorf("print answer: %w", err)
		}
		_, err = fmt.Fprintln(w, kube.PrintableJSON(out.String()))
		return err
	}
	return printYAML(w, answer)
}

// printYAML prints a value for a terminal. A text with a character that a terminal acts upon is written in quotes,
// where YAML has the escapes of JSON.
func printYAML(w io.Writer, v any) error {
	var node yaml.Node
	if err := node.Encode(v); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	quote(&node)
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&node), encoder.Close()); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	_, err := io.WriteString(w, kube.PrintableJSON(out.String()))
	return err
}

func quote(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && kube.PrintableJSON(node.Value) != node.Value {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		quote(child)
	}
}
