package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
)

// comparison is one comparison of fields of kinds that nobody has written down.
type comparison struct {
	real, fake *API
	seeds      map[string][]map[string]any // by apiVersion and kind
	allowed    []*Allowance

	mu                       sync.Mutex // guards what follows
	tried, reached, differed int
}

// eachKind compares one kind beside the other.
func (g *comparison) eachKind(t *testing.T, compare func(c *ofKind)) {
	t.Run("kinds", func(t *testing.T) {
		types := goTypes()
		for _, k := range kinds.Builtin(features.Set{}) {
			name := goName(k) + "." + k.Kind
			if k.ReadOnly || k.Refused != "" || types[name] == nil || isReview(k) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				compare(g.ofKind(t, k, types[name]))
			})
		}
	})
}

func (g *comparison) done(t *testing.T, of string) {
	t.Logf("%d %s tried, %d taken by the real server, %d differ", g.tried, of, g.reached, g.differed)
	if g.reached < fewest && !strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		t.Errorf("the real server took %d %s, not %d: less is compared than before", g.reached, of, fewest)
	}
}

func newGenerated(t *testing.T) *comparison {
	cluster := ownCluster(t)
	g := &comparison{real: cluster.Admin, fake: startFake(t), seeds: map[string][]map[string]any{},
		allowed: must(ReadAllowances(filepath.Join("testdata", "generated-allowed.json")))(t)}
	text := string(must(os.ReadFile(filepath.Join("testdata", "generated.yaml")))(t))
	text = Vars{"NS": generatedNamespace, "CSR": pkixRequest(t, "x")}.expand(text)
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o map[string]any
		if d.Decode(&o) != nil {
			break
		}
		key := fmt.Sprint(o["apiVersion"], " ", o["kind"])
		g.seeds[key] = append(g.seeds[key], o)
	}
	for _, api := range []*API{g.real, g.fake} {
		must(api.Create(t.Context(), "/api/v1/namespaces", Object{"metadata": Object{"name": generatedNamespace}}))(t)
	}
	return g
}

// fewest is how much is compared at least: a change that makes the objects invalid would compare nothing.
const fewest = 3000

const generatedNamespace = "generated"

// goName is the group and version of a kind as goTypes has them.
func goName(k *kinds.Kind) string {
	group, _, _ := strings.Cut(or(k.Group, "core"), ".")
	return group + "." + k.Version
}

// isReview says whether a kind is a question, of which nothing is stored.
func isReview(k *kinds.Kind) bool {
	return strings.HasSuffix(k.Kind, "Review") || k.Kind == "Binding"
}

// ofKind is the comparison of one kind.
type ofKind struct {
	*comparison
	*testing.T
	kind  *kinds.Kind
	of    reflect.Type
	path  string // of the collection
	bases []map[string]any
	seen  map[string]bool // what was reported
}

func (g *comparison) ofKind(t *testing.T, k *kinds.Kind, of reflect.Type) *ofKind {
	path := "/apis/" + k.APIVersion()
	if k.Group == "" {
		path = "/api/" + k.Version
	}
	if !k.ClusterScoped {
		path += "/namespaces/" + generatedNamespace
	}
	bases := g.seeds[k.APIVersion()+" "+k.Kind]
	if bases == nil {
		bases = []map[string]any{{"apiVersion": k.APIVersion(), "kind": k.Kind}}
	}
	for _, base := range bases {
		if base["metadata"] == nil {
			base["metadata"] = map[string]any{"name": "x"}
		}
	}
	return &ofKind{comparison: g, T: t, kind: k, of: of, path: path + "/" + k.Plural, bases: bases,
		seen: map[string]bool{}}
}

// report reports what differs and was not reported, unless it is allowed.
func (c *ofKind) report(f field, sent string, differences []Difference) {
	differences = slices.DeleteFunc(differences, func(d Difference) bool {
		return slices.ContainsFunc(c.allowed, func(a *Allowance) bool { return a.Allows(c.kind.Kind, f.String(), d) })
	})
	if len(differences) > 0 {
		c.count(&c.differed)
	}
	for _, d := range differences {
		key := numbers.ReplaceAllString(d.Path+" "+d.Real+" "+d.Fake, "N")
		if !c.seen[key] {
			c.Errorf("%s: %s\n      sent: %s", f, d, sent)
		}
		c.seen[key] = true
	}
}

// each calls check with each field and value that the real server takes in one of the bases, which it has the number
// of.
func (c *ofKind) each(check func(f field, base int, object map[string]any, real Answer)) {
	var missed []string
	for _, f := range append([]field{{}}, placesOf(c.of)...) {
		values := []any{nil}
		if len(f.steps) > 0 {
			if values = samples(f.of, f.steps); f.of.Kind() != reflect.Bool {
				values = values[:1]
			}
		}
		for i := 0; i < len(values); i++ {
			options, why := c.try(f, values[i], check)
			if i == 0 { // the first value only asks which there are
				values = append(values, asAny(options)...)
			}
			if c.count(&c.tried); why == "" {
				c.count(&c.reached)
			} else {
				missed = append(missed, why)
			}
		}
	}
	if len(missed) > 0 {
		c.Logf("%d not taken by the real server:\n%s", len(missed), strings.Join(missed, "\n"))
	}
}

// try tries a value in one base after the other. The options are those that the real server names.
func (c *ofKind) try(f field, value any, check func(field, int, map[string]any, Answer)) (options []string,
	why string) {
	found := false
	for i, base := range c.bases {
		a := &attempt{kind: c.of, target: f, object: base, tried: map[string]int{}}
		if have := valueAt(base, f.steps); len(f.steps) > 0 && (f.leaf || have == nil) {
			a.object = putIn(base, c.of, f.steps, value)
		}
		answer, ok, err := a.accepted(c.Context(), c.real, c.path+"?dryRun=All")
		noError(c, err)
		options = append(options, a.options...)
		if !ok {
			why = fmt.Sprintf("%s: %v", f, Object(asObject(answer.Body)).Str("message"))
			continue
		}
		found = true
		check(f, i, asObject(a.object), answer)
		if len(f.steps) > 0 {
			break
		}
	}
	if found {
		why = ""
	}
	slices.Sort(options)
	return slices.Compact(options), why
}

// send sends an object, and returns the answer.
func (c *ofKind) send(api *API, method, path string, object any) Answer {
	text := must(json.Marshal(object))(c.T)
	return must(sendStep(c.Context(), api, Step{Method: method, Path: path, Body: string(text)}, nil))(c.T)
}

var numbers = regexp.MustCompile(`\d+`)

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func (g *comparison) count(n *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*n++
}

// compareAnswers compares what two servers made of one request.
func compareAnswers(t *testing.T, real, own Answer) []Difference {
	var trees [2]any
	for i, a := range []Answer{real, own} {
		trees[i] = must(Normalize([]Answer{a}))(t)[0]
	}
	if real.Code != own.Code {
		return []Difference{{"Code", summary(trees[0]), summary(trees[1])}}
	}
	return Compare("", trees[0], trees[1])
}
