package cli

import (
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
)

// hookURLs replace the addresses of webhooks. A controller that is moved from metacontroller names a Service, and the
// machine of its author cannot reach a Service.
type hookURLs struct {
	pairs []string

	at map[string]*url.URL // by the name of the controller. Set by check
}

func (f *hookURLs) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.pairs, "hook-url", nil, "`NAME=URL`: scheme, host and port of the webhooks of the "+
		"controller NAME, instead of what it says, and a path before theirs; several times")
}

// check reads the flags.
func (f *hookURLs) check() error {
	f.at = map[string]*url.URL{}
	for _, pair := range f.pairs {
		name, text, _ := strings.Cut(pair, "=")
		at, err := url.Parse(text)
		switch {
		case strings.Contains(pair, "@"): // it may be a password, which is not shown
			return Usagef("--hook-url: want NAME=URL without a user name and a password")
		case err != nil, !kube.ValidName(name), at.Scheme != "http" && at.Scheme != "https", at.Hostname() == "",
			at.RawQuery != "", at.Fragment != "":
			return Usagef("--hook-url %.200q: want NAME=URL, for example site=http://localhost:8000", pair)
		case f.at[name] != nil:
			return Usagef("--hook-url %.200q: %s was given before", pair, name)
		}
		f.at[name] = at
	}
	return nil
}

// fit checks that these controllers run and have webhooks.
func (f *hookURLs) fit(controllers []*spec.Controller) error {
	var names []string
	for _, c := range controllers {
		if slices.ContainsFunc(c.Hooks(), func(h spec.NamedHook) bool { return h.Webhook != nil }) {
			names = append(names, c.Name)
		}
	}
	for name := range f.at {
		if !slices.Contains(names, name) {
			question := nearest.Ask(name, names, "", "")
			if question != "" {
				question = ": " + question
			}
			return Usagef("--hook-url %s=...: -f has no controller of that name with a webhook%s", name, question)
		}
	}
	return nil
}
