package internal_test

import (
	"fmt"
	"go/ast"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The laws of how a room is furnished. Each has a list of the places that do not keep it yet. A list may only shrink:
// a new place fails the test, and so does an entry that is not needed any more.

// readsText holds the functions that search a text which may be a sentence made for people, each with the text's
// origin. Entries that begin with "debt:" read a sentence of skiff or of a server; a value is to replace the sentence.
var readsText = map[string]string{
	"internal/cli.firstLine":                               "an error's first line, for the terminal",
	"internal/cli.parseBudget":                             "a flag's value",
	"internal/cli.parseTarget":                             "a flag's value",
	"internal/cli.statusFlags.inPlace":                     "the lines of a screen",
	"internal/cli.unknownFlag":                             "pflag's error, which names the flag in its text alone",
	"internal/hooks/scaffold.write":                        "a template's first line",
	"internal/hooks/spec.yamlError":                        "yaml.v3's error, which names the line in its text alone",
	"internal/hooks/supervise.CheckAllowed":                "a flag's value",
	"internal/operators/operator.FaultOf":                  "the full stop of a condition's message",
	"internal/testcluster/operatortest.Env.WantCondition":  "a condition's message, as a test wants it",
	"internal/testcluster/operatortest.Run":                "a definition's file",
	"internal/operators/restart.duration":                  "a duration of a custom resource",
	"internal/operators/webserver.trimmed":                 "the full stop of a condition's message",
	"internal/runtime/controller.sortOf":                   "the end of a cause, which add of the same package writes",
	"internal/runtime/kubeconfig.urlReason":                "net/url's error, which may quote a password",
	"internal/runtime/kubeconfig.yamlError":                "yaml.v3's error, which names the line in its text alone",
	"internal/runtime/page.showObject":                     "the end of a line without a message",
	"internal/runtime/plan.mask.texts":                     "a value of an object, which may hold a password",
	"internal/runtime/process.ParseID":                     "a flag's value",
	"internal/testcluster/apiserver/admission.matches":     "a rule of a webhook configuration",
	"internal/testcluster/apiserver/httpd.emptyDetails":    "a Status, as a real server fills it",
	"internal/testcluster/apiserver/podsecurity.versionOf": "a label's value",
	"internal/testcluster/cli.like":                        "an argument's pattern",
	"internal/testcluster/cli.notYAML":                     "yaml.v3's error, which names the line in its text alone",
	"internal/testcluster/simulate.intOrPercent":           "a field of an object",
	"internal/testcluster/state.Is":                        "a file's beginning",
	"internal/testcluster/state.redaction.query":           "a URL of an object",
}

// parsers matches the packages whose job is to read texts: of a server's Status, of a file, of a test's output.
var parsers = regexp.MustCompile(`^internal/(runtime/kube|testcluster/apiserver/kinds|testcluster/cron|tools/.*)$`)

// searches are the functions and methods of strings and regexp that look for something in a text.
var searches = regexp.MustCompile(`^(Contains|HasPrefix|HasSuffix|TrimPrefix|TrimSuffix|Cut|CutPrefix|CutSuffix|Index|` +
	`LastIndex|Split|SplitN|MatchString|FindStringSubmatch|ReplaceAllString)$`)

// sentence matches the expressions that hold a sentence, going by their last name.
var sentence = regexp.MustCompile(`(?i)^(error\(\)|(message|msg|text|why|next|detail|sentence|reasontext)(\(\))?)$`)

// Law 1: no package reads another's sentence. A sentence that is data as well can be reworded by nobody.
func TestNoPackageReadsASentence(t *testing.T) {
	found := map[string]bool{}
	for _, f := range sources(t) {
		if f.test || parsers.MatchString(f.pkg) {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !searchesSentence(call) {
					return true
				}
				name := functionName(f, fn)
				found[name] = true
				if readsText[name] == "" {
					t.Errorf("%s: %s searches a sentence: compare a Reason, a field or an error's type",
						f.position(call), name)
				}
				return true
			})
		}
	}
	for name := range readsText {
		if !found[name] {
			t.Errorf("%s searches no sentence any more: take it off readsText in internal/laws_test.go", name)
		}
	}
}

// searchesSentence says whether a call searches an expression that holds a sentence.
func searchesSentence(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !searches.MatchString(f.Sel.Name) || selects(f, "slices", f.Sel.Name) {
		return false
	}
	return slices.ContainsFunc(call.Args[:min(2, len(call.Args))], func(e ast.Expr) bool {
		return sentence.MatchString(lastName(e))
	})
}

// lastName returns the last name of an expression, with () for a call: "Message" of c.Message, "Error()" of e.Error().
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return lastName(e.X)
	case *ast.CallExpr:
		if len(e.Args) == 0 {
			return lastName(e.Fun) + "()"
		}
	case *ast.BinaryExpr:
		return lastName(e.Y)
	}
	return ""
}

// functionName returns "internal/cli.firstLine" of a function, "internal/runtime/page.Page.own" of a method.
func functionName(f source, fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return f.pkg + "." + fn.Name.Name
	}
	return f.pkg + "." + receiver(fn.Recv.List[0].Type) + "." + fn.Name.Name
}

// maxMethodFiles is the limit of files with methods of one type: for its life, its work and its display. The embedded
// API server may have six in the end.
const maxMethodFiles = 3

// methodFiles are the numbers of files of the types that have more.
var methodFiles = map[string]int{
	"internal/hooks/supervise.Supervisor":          4,
	"internal/hooks/supervise.supervised":          4,
	"internal/operators/restart.run":               4,
	"internal/runtime/apply.application":           7,
	"internal/runtime/apply.child":                 6,
	"internal/runtime/kubeconfig.target":           4,
	"internal/runtime/kubeconfig.user":             4,
	"internal/runtime/leader.Elector":              4,
	"internal/runtime/manager.Manager":             10,
	"internal/runtime/page.Page":                   7,
	"internal/runtime/plan.Plan":                   4,
	"internal/runtime/queue.Queue":                 4,
	"internal/testcluster/apiserver.Server":        27,
	"internal/testcluster/apiserver.request":       8,
	"internal/testcluster/apiserver.write":         5,
	"internal/testcluster/apiserver/schema.Schema": 4,
	"internal/testcluster/apiserver/schema.Type":   6,
	"internal/testcluster/apiserver/schema.Value":  6,
	"internal/testcluster/simulate.shared":         4,
	"internal/tools/e2e.Cluster":                   7,
	"internal/tools/release.release":               4,
}

// Law 3: one type, one place. A reader of a type opens three files at most; how long a file is does not count.
func TestTheMethodsOfATypeStandTogether(t *testing.T) {
	files := map[string]map[string]bool{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				name := f.pkg + "." + receiver(fn.Recv.List[0].Type)
				if files[name] == nil {
					files[name] = map[string]bool{}
				}
				files[name][f.name] = true
			}
		}
	}
	for name, in := range files {
		limit := max(maxMethodFiles, methodFiles[name])
		if len(in) > limit {
			t.Errorf("the methods of %s stand in %d files, the limit is %d: move them together", name, len(in), limit)
		}
	}
	for name, n := range methodFiles {
		if len(files[name]) < n {
			t.Errorf("the methods of %s stand in %d files: lower its number in methodFiles in internal/laws_test.go",
				name, len(files[name]))
		}
	}
}

// vague are the words that make a reader look back for the thing that is meant.
var vague = regexp.MustCompile(`^(it|that|what|one|others|them|these|this|its)$`)

// opening matches the beginning of a sentence that names no thing.
var opening = regexp.MustCompile(`(?:^|[.:]\s+)(What|Of|That)\s`)

// maxVague is the limit of vague words in a hundred words of a package's comments; controller-runtime has 3.8.
// Packages over the limit stand in prose with their number, and with their sentences that begin with What, Of or That.
const maxVague = 5.0

type wording struct {
	vague    float64
	openings int
}

var prose = map[string]wording{
	"cmd/skiff":                                  {9.1, 0},
	"cmd/skiff-dev":                              {10.5, 0},
	"internal/cli/clitest":                       {9.8, 0},
	"internal/install/check":                     {9.7, 0},
	"internal/install/definitions":               {10.0, 2},
	"internal/install/manifests":                 {9.9, 0},
	"internal/install/uninstall":                 {12.3, 0},
	"internal/testcluster/operatortest":          {5.8, 1},
	"internal/operators/redis":                   {8.7, 2},
	"internal/operators/webserver":               {8.0, 4},
	"internal/runtime/apply":                     {5.0, 1},
	"internal/runtime/discovery":                 {7.7, 0},
	"internal/runtime/events":                    {8.9, 1},
	"internal/runtime/history":                   {9.5, 0},
	"internal/runtime/kubeconfig":                {5.0, 0},
	"internal/runtime/labels":                    {8.7, 0},
	"internal/runtime/leader":                    {8.8, 1},
	"internal/runtime/metrics":                   {7.2, 0},
	"internal/runtime/nearest":                   {9.0, 2},
	"internal/runtime/podpolicy":                 {6.9, 1},
	"internal/runtime/process":                   {8.9, 0},
	"internal/testcluster/apiserver":             {7.9, 2},
	"internal/testcluster/apiserver/admission":   {8.9, 0},
	"internal/testcluster/apiserver/auth":        {7.9, 2},
	"internal/testcluster/apiserver/faults":      {7.8, 0},
	"internal/testcluster/apiserver/features":    {8.0, 0},
	"internal/testcluster/apiserver/forms":       {6.3, 1},
	"internal/testcluster/apiserver/httpd":       {6.4, 1},
	"internal/testcluster/apiserver/jsonpatch":   {6.6, 1},
	"internal/testcluster/apiserver/kinds":       {7.3, 1},
	"internal/testcluster/apiserver/obj":         {5.6, 0},
	"internal/testcluster/apiserver/podsecurity": {9.9, 0},
	"internal/testcluster/apiserver/schema":      {6.8, 1},
	"internal/testcluster/apiserver/ssa":         {6.6, 0},
	"internal/testcluster/apiserver/store":       {7.7, 0},
	"internal/testcluster/cel":                   {8.9, 3},
	"internal/testcluster/cel/skiff-dev":         {15.2, 1},
	"internal/testcluster/cli":                   {8.5, 4},
	"internal/testcluster/cron":                  {6.2, 0},
	"internal/testcluster/rehearse":              {9.0, 0},
	"internal/testcluster/state":                 {7.6, 2},
	"internal/tools/browser":                     {9.4, 0},
	"internal/tools/chart":                       {12.2, 0},
	"internal/tools/conformance":                 {8.0, 0},
	"internal/tools/e2e":                         {8.2, 6},
	"internal/tools/e2e/floor":                   {9.4, 0},
	"internal/tools/outside":                     {10.2, 0},
	"internal/tools/outside/peer":                {11.9, 0},
	"internal/tools/release":                     {7.5, 0},
}

// Law 4: a comment names its thing.
func TestCommentsNameTheirThing(t *testing.T) {
	word := regexp.MustCompile(`[A-Za-z']+`)
	words, vagueWords, openings := map[string]int{}, map[string]int{}, map[string]int{}
	for _, f := range sources(t) {
		if f.test || path.Dir(f.pkg) == "." && f.pkg != "cmd" {
			continue
		}
		for _, c := range f.ast.Comments {
			openings[f.pkg] += len(opening.FindAllString(c.Text(), -1))
			for _, w := range word.FindAllString(strings.ToLower(c.Text()), -1) {
				words[f.pkg]++
				if vague.MatchString(w) {
					vagueWords[f.pkg]++
				}
			}
		}
	}
	for pkg, n := range words {
		is := wording{math.Round(1000*float64(vagueWords[pkg])/float64(n)) / 10, openings[pkg]}
		limit := prose[pkg]
		limit.vague = max(limit.vague, maxVague)
		if is.vague > limit.vague || is.openings > limit.openings {
			t.Errorf("the comments of %s have %.1f vague words per 100 (limit %.1f) and %d sentences that begin with "+
				"What, Of or That (limit %d): name the thing", pkg, is.vague, limit.vague, is.openings, limit.openings)
		} else if is.vague < limit.vague-0.2 && limit.vague > maxVague || is.openings < limit.openings {
			t.Errorf("the comments of %s have become better: write %s into prose in internal/laws_test.go", pkg,
				fmt.Sprintf("%q: {%.1f, %d}", pkg, max(is.vague, maxVague), is.openings))
		}
	}
}
