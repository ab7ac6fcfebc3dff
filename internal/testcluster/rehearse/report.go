package rehearse

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"skiff/internal/cli"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// exitBlocked is the exit code where something is in the way of a write, as that of skiff plan.
const exitBlocked = 4

// report writes what happened.
func (r *rehearsal) report(out io.Writer) (cli.ExitCode, error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	var text strings.Builder
	for _, note := range r.State.Notes {
		fmt.Fprintf(&text, "note: %s\n", kube.Text(note))
	}
	if n := r.log.before; n > 0 {
		fmt.Fprintf(&text, "the copy was not at rest: %d simulated writes before the plan\n", n)
	}
	lines, created, changed, deleted := r.log.ours()
	lines = append(lines, r.rollouts()...)
	slices.SortStableFunc(lines, func(a, b line) int {
		switch {
		case r.ByOwner && a.owner != b.owner:
			return strings.Compare(a.owner, b.owner)
		case r.ByOwner && a.owner == cluster: // they are about one owner each
			return strings.Compare(a.text, b.text)
		}
		return cmp.Compare(a.at, b.at)
	})
	for _, l := range lines {
		if !r.ByOwner {
			fmt.Fprintf(&text, "%.1fs ", l.at.Seconds())
		}
		fmt.Fprintf(&text, "%s\n", kube.Text(l.owner+" "+l.text))
	}
	for _, b := range r.blocked {
		fmt.Fprintf(&text, "! %s\n", kube.Text(b))
	}
	for _, w := range r.waits {
		fmt.Fprintf(&text, "waits: %s\n", kube.Text(w))
	}
	if created+changed+deleted+len(r.blocked) == 0 && r.early == nil {
		fmt.Fprintf(&text, "No writes: the %d objects of the copy stay as they are.\n", len(r.State.Objects))
	}
	fmt.Fprintf(&text, "Rehearsal: %d created, %d changed, %d deleted, %d blocked.\n", created, changed, deleted,
		len(r.blocked))
	text.WriteString("Not known here: whether images can be pulled, what webhooks refuse or change, and what other " +
		"controllers do.\n")
	code := cli.ExitCode(cli.ExitDone)
	switch {
	case len(r.blocked) > 0:
		code = exitBlocked
	case created+changed+deleted > 0:
		code = cli.ExitDiffer
	}
	_, err := io.WriteString(out, text.String())
	return code, err
}

// whatWaits says which keys of the controllers wait for longer than a rehearsal does.
func (r *rehearsal) whatWaits() (out []string) {
	own, _ := r.own()
	for _, c := range own {
		pending, all, _, _ := c.View(maxWaits)
		for _, p := range pending {
			if p.Failures == 0 { // else it is blocked
				out = append(out, fmt.Sprintf("%s %s, %s%s", c.Kind(), p.Key, r.until(p),
					strings.Join(p.Causes, ", ")))
			}
		}
		if all > len(pending) {
			out = append(out, fmt.Sprintf("%d more of %s", all-len(pending), c.Name()))
		}
	}
	if r.ByOwner {
		slices.Sort(out)
	}
	return out
}

// maxWaits is how many keys of a controller are named: a screen.
const maxWaits = 40

func (r *rehearsal) until(p controller.Pending) string {
	if r.ByOwner {
		return ""
	}
	d := time.Until(p.Due)
	if d = d.Round(time.Second); d > time.Minute {
		d = d.Round(10 * time.Second)
	}
	return d.String() + ", "
}

// whatIsBlocked says what cannot be done until a user changes something, and what failed.
func (r *rehearsal) whatIsBlocked() (out []string) {
	said := map[string]bool{}
	for owner, all := range r.log.obstacles() {
		for _, text := range all {
			said[owner], out = true, append(out, owner+": "+text)
		}
	}
	for _, right := range r.Rights {
		if right.Subresource != "status" {
			continue
		}
		for _, o := range r.server.List(right.Resource, "") {
			name := right.Resource.Kind + " " + keyOf(o).String()
			c := kinds.Condition(o, conditions.Stalled) // there is no progress until a user changes something
			if c["status"] == string(conditions.True) && !said[name] {
				said[name], out = true, append(out, name+": "+obj.String(c, "message"))
			}
		}
	}
	own, _ := r.own()
	for _, c := range own {
		_, _, failing, _ := c.View(maxWaits)
		for _, f := range failing {
			if name := c.Kind() + " " + f.Key.String(); !said[name] {
				out = append(out, name+": fails; the log on stderr says why")
			}
		}
	}
	slices.Sort(out)
	return out
}

func keyOf(o map[string]any) kube.Key {
	return kube.Key{Namespace: obj.String(o, "metadata", "namespace"), Name: obj.String(o, "metadata", "name")}
}
