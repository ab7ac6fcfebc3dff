package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
	"skiff/internal/runtime/page"
)

// This file tells the story of an object in the terminal: the state, the parts, and the last runs.

// maxStoryRuns are shown of an object, the newest first, and maxStoryRows of its children and of its pods: the page
// has more.
const maxStoryRuns, maxStoryRows = 3, 10

// target is an object that is named on the command line.
type target struct{ kind, namespace, name string }

// readTarget takes KIND/NAME.
func readTarget(arg, namespace string) (target, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || kind == "" || !kube.ValidName(name) || !kube.ValidName(namespace) {
		return target{}, Usagef("%q: want KIND/NAME, for example webserver/web, and -n for its namespace", arg)
	}
	return target{kind, namespace, name}, nil
}

// object asks the live page for an object; nil: skiff at that address does not work for it.
func (q *statusAsker) object(ctx context.Context, address string, t target) (*page.ObjectAnswer, error) {
	for _, namespace := range []string{t.namespace, "-"} { // it may have none
		answer := new(page.ObjectAnswer)
		path := "/debug/object/" + url.PathEscape(t.kind) + "/" + namespace + "/" + t.name
		err := q.json(ctx, address, path, answer)
		if err == nil {
			return answer, nil
		}
		if !errors.Is(err, errNoSuchObject) {
			return nil, err
		}
	}
	return nil, nil
}

// nearby asks for the only object of the same kind and namespace with a name like a mistyped one, among the first
// maxNearby objects; "": there is none.
func (q *statusAsker) nearby(ctx context.Context, address string, t target) string {
	found := map[string][]string{} // names by kind
	query := url.Values{"namespace": {t.namespace}, "state": {"all"}, "format": {"json"}}.Encode()
	for range maxNearby / 25 { // the objects of a page
		var answer page.Owners
		if q.json(ctx, address, "/debug/owners?"+query, &answer) != nil {
			return ""
		}
		for i := range answer.Owners {
			o := &answer.Owners[i]
			found[o.Kind] = append(found[o.Kind], o.Name)
		}
		if query = answer.Next; query == "" {
			break
		}
		query += "&format=json"
	}
	for kind, all := range found {
		name := nearest.Of(t.name, all)
		others := slices.DeleteFunc(all, func(other string) bool { return other == name })
		if !kube.ValidName(name) || nearest.Of(t.name, others) != "" {
			continue
		}
		a, err := q.object(ctx, address, target{t.kind, t.namespace, name})
		if err == nil && a != nil && a.Owner.Kind == kind { // the page knows which kind is meant
			return "did you mean " + t.kind + "/" + name + "?"
		}
	}
	return ""
}

// inNamespace shows how to write NAMESPACE/NAME, where skiff works for an object in the namespace; "": it does not.
func (q *statusAsker) inNamespace(ctx context.Context, address string, t target) string {
	namespace := t.kind
	if !kube.ValidName(namespace) {
		return ""
	}
	var answer page.Owners
	query := url.Values{"namespace": {namespace}, "state": {"all"}, "format": {"json"}}.Encode()
	if q.json(ctx, address, "/debug/owners?"+query, &answer) != nil || len(answer.Owners) == 0 {
		return ""
	}
	meant := max(0, slices.IndexFunc(answer.Owners, func(o page.Owner) bool { return o.Name == t.name }))
	o := answer.Owners[meant]
	return fmt.Sprintf("want KIND/NAME, for example %s/%s -n %s", plain(strings.ToLower(o.Kind)), plain(o.Name),
		namespace)
}

// errNoSuchObject is the answer of a page that does not know an object.
var errNoSuchObject = errors.New("there is no such object")

// runObject shows one object.
func (f *statusFlags) runObject(ctx context.Context, q *statusAsker, ask func(context.Context) ([]*status, error),
	t target, out io.Writer) error {
	all, err := ask(ctx)
	if err != nil {
		return Ended(ctx, err)
	}
	pages, instead := 0, ""
	for _, s := range all {
		if s.Probes != nil {
			continue
		}
		pages++
		answer, err := q.object(ctx, s.Address, t)
		if err != nil {
			return Ended(ctx, fmt.Errorf("ask skiff at %s for %s/%s: %w", s.Address, t.kind, t.name, err))
		}
		if answer == nil {
			if instead == "" {
				instead = cmp.Or(q.nearby(ctx, s.Address, t), q.inNamespace(ctx, s.Address, t))
			}
			continue
		}
		if err := f.writeObject(out, answer); err != nil {
			return err
		}
		if needs(answer.Owner.State) {
			return errDiffer
		}
		return nil
	}
	if pages == 0 {
		return fmt.Errorf("skiff at %s serves no live page, which knows the objects: start it with "+
			"--debug-bind-address", all[0].Address)
	}
	if instead != "" {
		return fmt.Errorf("%s/%s in namespace %s: skiff works for no such object; %s", t.kind, t.name, t.namespace,
			instead)
	}
	return fmt.Errorf("%s/%s in namespace %s: skiff works for no such object; `kubectl get %s -A` lists those that "+
		"exist", t.kind, t.name, t.namespace, t.kind)
}

// needs says whether an object in a state needs attention.
func needs(state string) bool {
	class, _ := page.Look(state)
	return class == "bad" || class == "warn"
}

func (f *statusFlags) writeObject(out io.Writer, a *page.ObjectAnswer) error {
	if f.output == "json" {
		text, err := json.MarshalIndent(a, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the object: %w", err)
		}
		_, err = io.WriteString(out, kube.PrintableJSON(string(text))+"\n")
		return err
	}
	w := newStatusText(out)
	w.story(a)
	_, err := io.WriteString(out, w.String())
	return err
}

// story writes what is known of one object.
func (w *statusText) story(a *page.ObjectAnswer) {
	o := a.Owner
	class, symbol := page.Look(o.State)
	w.trouble(w.painted(class, symbol+" "+plain(page.Word(o.State)))+"  ", "  ", o.Trouble)
	for _, fact := range o.Facts {
		value := plain(fact.Value)
		if !fact.At.IsZero() {
			value = strings.TrimSpace(value + " " + w.ago(fact.At))
		}
		w.lines("  ", plain(fact.Name)+": "+value)
	}
	if len(o.Children) > 0 {
		fmt.Fprintf(w, "\nCHILDREN  %d of %d ready\n", o.Ready, o.Declared)
	}
	for _, c := range o.Children[:min(len(o.Children), maxStoryRows)] {
		line := plain(c.Kind) + " " + plain(c.Name) + "  " + plain(c.State)
		if c.Problem != "" {
			line += ": " + plain(c.Problem)
		} else if len(c.Fields) > 0 {
			line += ": differs in " + plain(strings.Join(c.Fields, ", "))
		}
		w.lines("  ", line)
	}
	w.hidden(len(o.Children) + o.Omitted)
	w.pods(a.Pods)
	runs := a.Timeline.Runs
	if len(runs) == 0 {
		fmt.Fprintf(w, "\nNothing was written for it since this skiff started %s.\n", w.ago(a.Started))
		return
	}
	fmt.Fprint(w, "\nLAST RUNS\n")
	for i := range runs[:min(len(runs), maxStoryRuns)] {
		w.run(&runs[i])
	}
}

// hidden says how many of all rows are not shown.
func (w *statusText) hidden(all int) {
	if more := all - maxStoryRows; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

// pods writes the pods that are not ready, with the fault of each.
func (w *statusText) pods(pods *page.Pods) {
	switch {
	case pods == nil:
		return
	case pods.Problem != "":
		fmt.Fprintf(w, "\nPODS  not read: %s\n", plain(pods.Problem))
		return
	case pods.More:
		fmt.Fprintf(w, "\nPODS  %d of the first %d ready\n", pods.Ready, pods.All)
	default:
		fmt.Fprintf(w, "\nPODS  %d of %d ready\n", pods.Ready, pods.All)
	}
	shown := 0
	for _, one := range pods.List {
		if one.State == "ready" || shown == maxStoryRows {
			continue
		}
		shown++
		line := plain(one.Name) + "  " + plain(one.State)
		for _, text := range []string{one.Reason, one.Message} {
			if text != "" {
				line += ": " + plain(text)
			}
		}
		w.lines("  ", line)
	}
	w.hidden(pods.All - pods.Ready)
}

// run writes a run: the time, the cause, the writes and the end.
func (w *statusText) run(r *history.Run) {
	var writes []string
	for _, one := range r.Writes {
		text := one.Verb + " " + one.Object
		if one.Code >= 400 {
			text += fmt.Sprintf(" (%d)", one.Code)
		}
		writes = append(writes, plain(text))
	}
	line := fmt.Sprintf("%s, %s: because %s", w.ago(r.Ended), r.Ended.Sub(r.Began).Round(time.Millisecond),
		plain(strings.Join(r.Causes, ", ")))
	if len(writes) > 0 {
		line += "; " + strings.Join(writes, ", ")
	}
	if r.Error != nil {
		line += "; failed: " + plain(r.Error.Reason)
		if r.Error.Text != "" {
			line += ": " + plain(r.Error.Text)
		}
	}
	w.lines("  ", line)
}
