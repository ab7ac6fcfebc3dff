package cli

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"skiff/internal/install/manifests"
	"skiff/internal/operators/restart"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

const (
	chart       = "examples/chart/"
	chartOrigin = "{{- /* Made by `make generate` from what `skiff manifests` prints: change that. */}}\n"
)

// TestTheChartIsMadeOfWhatManifestsPrints compares the templates of the Helm chart with the output of `skiff
// manifests`, where values stand for flags; -update writes the templates. Package internal/tools/chart renders them.
func TestTheChartIsMadeOfWhatManifestsPrints(t *testing.T) {
	const begin, end = "controllers:\n", "\n"
	written(t, chart+"values.yaml", begin, end, "  - "+strings.Join(ControllerNames(), "\n  - ")+"\n")
	written(t, chart+"values.schema.json", "\"enum\": [\n", "        ]\n",
		`          "`+strings.Join(knownControllers(), "\",\n          \"")+"\"\n")
	names := `["` + strings.Join(restart.SourceNames, `", "`) + `"]`
	if !strings.Contains(read(t, chart+"values.schema.json"), `"items": {"enum": `+names+"}") {
		t.Errorf("%svalues.schema.json does not allow the restartSources %s", chart, names)
	}
	files := map[string]string{"templates/_rules.tpl": chartOrigin + chartRules(),
		"templates/roles.yaml":      chartOrigin + chartRoles(t),
		"templates/deployment.yaml": chartOrigin + chartDeployment(t)}
	// The definitions are no links: an archive may lose a link.
	for _, name := range []string{"redis.yaml", "restarttrigger.yaml", "webserver.yaml"} {
		files["crds/"+name] = read(t, "crds/"+name)
	}
	for name, text := range files {
		if *update {
			noError(t, os.WriteFile(repositoryFile(chart+name), []byte(text), 0o644))
		}
		if read(t, chart+name) != text {
			t.Errorf("%s%s is not made of what `skiff manifests` prints: run `make generate`", chart, name)
		}
	}
}

// chartSources is the value restartSources, which `helm upgrade --reuse-values` of an older release does not have.
const chartSources = `(.Values.restartSources | default (list "pods"))`

// chartRules is a template with the rules of each controller: rules of several controllers add up.
func chartRules() string {
	var b strings.Builder
	add := func(condition string, rights []kube.Right) {
		fmt.Fprintf(&b, "{{- if %s }}\n%s{{- end }}\n", condition, manifests.YAML(manifests.Rules(rights)))
	}
	b.WriteString("{{- define \"skiff.rules\" }}\n")
	for _, op := range operators {
		chosen := fmt.Sprintf("has %q .Values.controllers", op.name)
		if !op.sourced {
			add(chosen, kube.Needed(op.rights))
			if optional := without(slices.Clone(op.rights), kube.Needed(op.rights)); len(optional) > 0 {
				add(fmt.Sprintf("and (%s) (not .Values.namespaced)", chosen), optional)
			}
			continue
		}
		always := restart.AllSources.Rights()
		for _, name := range restart.SourceNames {
			others := slices.DeleteFunc(slices.Clone(restart.SourceNames), func(s string) bool { return s == name })
			rights := without(restart.AllSources.Rights(), restart.SourcesOf(others).Rights())
			always = without(always, rights)
			add(fmt.Sprintf("and (%s) (has %q %s)", chosen, name, chartSources), rights)
		}
		add(chosen, always)
	}
	add(".Values.watchNamespaceSelector", controller.SelectRights)
	return b.String() + "{{- end }}\n"
}

// without returns rights that are not among others.
func without(rights, others []kube.Right) []kube.Right {
	return slices.DeleteFunc(rights, func(r kube.Right) bool {
		return slices.ContainsFunc(others, func(o kube.Right) bool { return reflect.DeepEqual(r, o) })
	})
}

// Flags of `skiff manifests` whose values stand where the chart has its own.
var (
	chartFlags = []string{"manifests", "--namespace=release", "--controllers=redis", "--image=name",
		"--replicas=77"}
	chartNamespaced = append(chartFlags[:len(chartFlags):len(chartFlags)], "--namespaced=one")
)

// chartRoles is the template of the service account, of the role with its binding in each namespace or in the cluster,
// and of the role for leader election.
func chartRoles(t *testing.T) string {
	t.Helper()
	role := func(flags []string, kind string) string {
		head, _, _ := strings.Cut(chartDocument(t, flags, kind), "rules:\n") // of redis
		return head + "rules:\n  {{- include \"skiff.rules\" $ }}\n---\n" + chartDocument(t, flags, kind+"Binding")
	}
	const both = "namespaced and watchNamespaceSelector: give one of them"
	return "{{- if and .Values.namespaced .Values.watchNamespaceSelector }}{{ fail \"" + both + "\" }}{{ end }}\n" +
		chartDocument(t, chartFlags, "ServiceAccount") +
		"{{- range .Values.namespaced | uniq | sortAlpha }}\n---\n" + role(chartNamespaced, "Role") +
		"{{- else }}\n---\n" + role(chartFlags, "ClusterRole") + "{{- end }}\n---\n" +
		chartDocument(t, chartFlags, "Role") + "---\n" + chartDocument(t, chartFlags, "RoleBinding")
}

// chartDeployment is the template of the Deployment and the PodDisruptionBudget.
func chartDeployment(t *testing.T) string {
	t.Helper()
	text := chartDocument(t, chartFlags, "Deployment")
	for _, r := range [][2]string{
		{"replicas: 77", "replicas: {{ .Values.replicas }}"},
		{`image: "name"`, "image: {{ .Values.image | quote }}"},
		{"            - \"run\"\n", `            - "run"
            {{- with .Values.namespaced | uniq | sortAlpha }}
            - {{ printf "--watch-namespaces=%s" (join "," .) | quote }}
            {{- end }}
`},
		{"            - \"--controllers=redis\"\n", fmt.Sprintf(`            {{- with .Values.watchNamespaceSelector }}
            - {{ printf "--watch-namespace-selector=%%s" . | quote }}
            {{- end }}
            {{- if ne (join "," (sortAlpha .Values.controllers)) %q }}
            - {{ printf "--controllers=%%s" (join "," .Values.controllers) | quote }}
            {{- end }}
            {{- with %s }}
            {{- if ne (join "," .) "pods" }}
            - {{ printf "--restart-sources=%%s" (join "," .) | quote }}
            {{- end }}
            {{- end }}
            {{- range .Values.args }}
            - {{ . | quote }}
            {{- end }}
`, strings.Join(slices.Sorted(slices.Values(ControllerNames())), ","), chartSources)},
	} {
		if strings.Count(text, r[0]) != 1 {
			t.Fatalf("the Deployment does not have %q once:\n%s", r[0], text)
		}
		text = strings.Replace(text, r[0], r[1], 1)
	}
	return "{{- if not .Values.rbacOnly }}\n" + text + "---\n" + chartDocument(t, chartFlags, "PodDisruptionBudget") +
		"{{- end }}\n"
}

// chartDocument is the object of a kind that a command prints, with namespaces of the chart's own.
func chartDocument(t *testing.T, flags []string, kind string) string {
	t.Helper()
	for _, doc := range strings.Split(printed(t, flags...), "---\n") {
		if strings.Contains(doc, "\nkind: "+kind+"\n") {
			doc = strings.ReplaceAll(doc, "namespace: one\n", "namespace: {{ . | quote }}\n")
			return strings.ReplaceAll(doc, "namespace: release\n", "namespace: {{ $.Release.Namespace | quote }}\n")
		}
	}
	t.Fatalf("skiff %q prints no %s", flags, kind)
	return ""
}
