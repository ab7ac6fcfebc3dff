package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

// watchOptions are the flags of `skiff watch`.
type watchOptions struct {
	connection    kubeconfig.Flags
	log           logFlags
	selector      string
	fieldSelector string
	allNamespaces bool
	output        string
}

func newWatch() *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch RESOURCE [NAME]",
		Short: "List objects, then print each change until stopped",
		Long: `Lists objects, then prints each change as it happens, until stopped. After a lost connection, a restart
of the server or an expired resource version it reconnects, and prints once what changed meanwhile.

RESOURCE is a plural, singular or short name or a kind, followed by .GROUP where needed. Each line shows the event
(ADDED, MODIFIED, DELETED), the object, and its state after the event.`,
		Example: `  skiff watch pods -l app=nginx
  skiff watch pods -l app=nginx -o json       # one watch event in JSON per line
  skiff watch deployments.apps web -n shop
  skiff watch ws -A -o wide`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fmt.Errorf("want RESOURCE [NAME], got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 2 {
				name = args[1]
			}
			return o.run(cmd, args[0], name)
		},
	}
	addConnectionFlags(cmd, &o.connection)
	o.log.add(cmd)
	cmd.Flags().StringVarP(&o.connection.Namespace, "namespace", "n", "",
		"`namespace` (default: the namespace of the kubeconfig context)")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "watch all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "label `selector`, such as app=nginx,tier!=test")
	cmd.Flags().StringVar(&o.fieldSelector, "field-selector", "", "field `selector`, such as spec.nodeName=node-1")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "`format`: json, name or wide")
	return cmd
}

func (o *watchOptions) run(cmd *cobra.Command, resource, name string) error {
	switch o.output {
	case "", "json", "name", "wide":
	default:
		return wrongChoice("--output", o.output, []string{"json", "name", "wide"})
	}
	if o.allNamespaces && name != "" {
		return Usagef("%s %s: --all-namespaces cannot be combined with a NAME", resource, name)
	}
	if before, after, ok := strings.Cut(resource, "/"); ok {
		return Usagef("%s: write it as skiff watch %s %s", resource, before, after)
	}
	if strings.Contains(resource, ",") {
		return Usagef("%s: only one resource can be watched at a time", resource)
	}
	log, err := o.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	client, namespace, err := connect(o.connection, warnTo(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := cmd.Context()
	found, err := discovery.Resolve(ctx, client, resource)
	if err != nil {
		return Ended(ctx, err)
	}
	r := found.Resource
	if o.allNamespaces || r.ClusterScoped {
		namespace = ""
	}
	q := kube.Query{Resource: r, Namespace: namespace, LabelSelector: o.selector, FieldSelector: o.fieldSelector}
	if name != "" {
		q = q.Object(name)
		if o.fieldSelector != "" {
			q.FieldSelector += "," + o.fieldSelector
		}
	}
	if err := tryList(ctx, client, q); err != nil {
		return Ended(ctx, err)
	}
	waitsFor(ctx, client, namespace, warnTo(cmd.ErrOrStderr()))
	p := &printer{out: cmd.OutOrStdout(), resource: r, output: o.output,
		allNamespaces: namespace == "" && !r.ClusterScoped}
	if o.output == "json" {
		return watch[*wholeObject](ctx, client, q, log, p)
	}
	return watch[*lineObject](ctx, client, q, log, p)
}

// waitsFor warns of a namespace that does not exist: a server answers a list there as if the namespace were empty.
func waitsFor(ctx context.Context, c *kube.Client, namespace string, warn func(string)) {
	if namespace == "" {
		return
	}
	if missing, _ := missingOf(ctx, c, []string{namespace}); len(missing) > 0 {
		text := "namespace " + namespace + " does not exist; waiting for it"
		if question := askNamespace(ctx, c, namespace); question != "" {
			text += "; " + question
		}
		warn(text)
	}
}

// tryList lists one object, so that a missing permission or a wrong selector fails the command. A mirror would retry.
func tryList(ctx context.Context, c *kube.Client, q kube.Query) error {
	query := url.Values{"limit": {"1"}}
	if q.LabelSelector != "" {
		query.Set("labelSelector", q.LabelSelector)
	}
	if q.FieldSelector != "" {
		query.Set("fieldSelector", q.FieldSelector)
	}
	path, err := q.Resource.Path(q.Namespace, "")
	if err == nil {
		_, err = c.Raw(ctx, http.MethodGet, path, query)
	}
	return err
}

// printable is an object with the text that a printer prints for it.
type printable interface {
	kube.Object
	text(p *printer) (string, error)
}

// watch mirrors the objects that q selects and prints every change, until ctx is done or stdout is closed.
func watch[T printable](ctx context.Context, c *kube.Client, q kube.Query, log logr.Logger, p *printer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := cache.Options{Resource: q.Resource, LabelSelector: q.LabelSelector, FieldSelector: q.FieldSelector, Client: c,
		Log: log}
	if q.Namespace != "" {
		o.Namespaces = []string{q.Namespace}
	}
	store := cache.New[T](o)
	var failed error // written on the goroutine of the only scope, read after Run
	store.OnChange(func(change cache.Change[T]) {
		if failed != nil {
			return
		}
		if failed = printChange(p, change); failed != nil {
			cancel(failed)
		}
	})
	store.Run(ctx)
	if errors.Is(failed, syscall.EPIPE) || errors.Is(failed, io.ErrClosedPipe) {
		return nil // the reader of a pipe has closed it, as in `| head`
	}
	return failed
}

func printChange[T printable](p *printer, change cache.Change[T]) error {
	obj := change.Object()
	text, err := obj.text(p)
	if err != nil {
		return fmt.Errorf("print %s %s: %w", p.resource, obj.ObjectMeta().Key(), err)
	}
	if err := p.print(change.Type.String(), obj.ObjectMeta(), text); err != nil {
		return fmt.Errorf("print %s: %w", p.resource, err)
	}
	return nil
}

// printer writes one line for each change.
type printer struct {
	out           io.Writer
	resource      kube.Resource
	output        string // the value of -o
	allNamespaces bool
}

func (p *printer) print(event string, m *kube.Meta, text string) error {
	var line string
	switch p.output {
	case "json":
		line = fmt.Sprintf(`{"type":%q,"object":%s}`, event, text)
	case "name":
		line = p.name(m)
	default:
		line = fmt.Sprintf("%-8s %s", event, p.name(m))
		if p.allNamespaces {
			line = fmt.Sprintf("%-8s %-16s %s", event, m.Namespace, p.name(m))
		}
		if text != "" {
			line += "  " + text
		}
	}
	// No text from an object may reach the terminal as a control sequence.
	if p.output == "json" {
		line = kube.PrintableJSON(line)
	} else {
		line = kube.Printable(line, maxLine)
	}
	_, err := io.WriteString(p.out, line+"\n")
	return err
}

// maxLine is more than all columns of an object take.
const maxLine = 16 << 10

// name returns the object's name in the form of kubectl -o name: "pod/web", "deployment.apps/web".
func (p *printer) name(m *kube.Meta) string {
	kind := strings.ToLower(p.resource.Kind)
	if p.resource.Group != "" {
		kind += "." + p.resource.Group
	}
	return kind + "/" + m.Name
}
