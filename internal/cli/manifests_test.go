package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"skiff/internal/operators/restart"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// printed returns what a command prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	r := skiff(t, args...)
	r.Want(t, ExitDone)
	return r.Stdout
}

// installed returns the objects that `skiff manifests` prints, by kind, namespace and name.
func installed(t *testing.T, args ...string) map[string]object {
	t.Helper()
	return printedObjects(t, append([]string{"manifests"}, args...)...)
}

// printedObjects returns the objects that a command prints, in the same way.
func printedObjects(t *testing.T, args ...string) map[string]object {
	t.Helper()
	out := map[string]object{}
	for _, body := range documents(t, printed(t, args...)) {
		meta := body["metadata"].(object)
		namespace, _ := meta["namespace"].(string)
		id := body["kind"].(string) + " " + namespace + "/" + meta["name"].(string)
		if out[id] != nil {
			t.Fatalf("%s is printed twice", id)
		}
		out[id] = body
	}
	return out
}

func wantInstalled(t *testing.T, have map[string]object, want ...string) {
	t.Helper()
	slices.Sort(want)
	if ids := slices.Sorted(maps.Keys(have)); !slices.Equal(ids, want) {
		t.Errorf("it has\n%s\nwant\n%s", strings.Join(ids, "\n"), strings.Join(want, "\n"))
	}
}

// wantGrants checks that a role grants the rights, and not a verb more.
func wantGrants(t *testing.T, role object, rights []kube.Right) {
	t.Helper()
	want := map[string]bool{}
	for _, r := range rights {
		name := r.Resource.Plural
		if r.Subresource != "" {
			name += "/" + r.Subresource
		}
		for _, verb := range r.Verbs {
			want[grant(r.Resource.Group, name, verb)] = true
		}
	}
	have := map[string]bool{}
	addGrants(have, role)
	if !maps.Equal(have, want) {
		t.Errorf("it grants\n%v\nwant\n%v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(want)))
	}
}

func TestManifestsForTheWholeCluster(t *testing.T) {
	have := installed(t)
	wantInstalled(t, have, "Namespace /skiff", "ServiceAccount skiff/skiff", "ClusterRole /skiff",
		"ClusterRoleBinding /skiff", "Role skiff/skiff-leader-election", "RoleBinding skiff/skiff-leader-election",
		"Deployment skiff/skiff", "PodDisruptionBudget skiff/skiff")
	wantGrants(t, have["ClusterRole /skiff"], rightsOf(ControllerNames(), restart.Sources{}))
	wantGrants(t, have["Role skiff/skiff-leader-election"], electionRights)
}

func TestManifestsForNamespacesAreNamespacedAndGrantWhatTheControllerNeeds(t *testing.T) {
	have := installed(t, "--namespaced", "shop,blog,shop", "--controllers", "redis")
	wantInstalled(t, have, "ServiceAccount blog/skiff", "Role shop/skiff", "RoleBinding shop/skiff", "Role blog/skiff",
		"RoleBinding blog/skiff", "Role blog/skiff-leader-election", "RoleBinding blog/skiff-leader-election",
		"Deployment blog/skiff", "PodDisruptionBudget blog/skiff")
	wantGrants(t, have["Role shop/skiff"], rightsOf([]string{"redis"}, restart.Sources{}))
	subject := have["RoleBinding shop/skiff"]["subjects"].([]any)[0].(object)
	if subject["namespace"] != "blog" || subject["name"] != "skiff" {
		t.Errorf("the Role in shop is bound to %v", subject)
	}
}

func TestManifestsForASelectorGrantTheListOfNamespaces(t *testing.T) {
	have := installed(t, "--watch-namespace-selector", "team in (a,b)", "--controllers", "webserver")
	rights := append(rightsOf([]string{"webserver"}, restart.Sources{}), controller.SelectRights...)
	wantGrants(t, have["ClusterRole /skiff"], rights)
	_, c := container(t, "--watch-namespace-selector", "team in (a,b)")
	if args := c["args"].([]any); !slices.Contains(args, any("--watch-namespace-selector=team in (a,b)")) {
		t.Errorf("arguments %q", args)
	}
}

// container returns the container of the printed Deployment.
func container(t *testing.T, args ...string) (deployment, container object) {
	t.Helper()
	for id, body := range installed(t, args...) {
		if strings.HasPrefix(id, "Deployment ") {
			list := lookup(body, "spec", "template", "spec", "containers").([]any)
			return body, list[0].(object)
		}
	}
	t.Fatal("there is no Deployment")
	return nil, nil
}

func TestManifestsTakeTheImageByDigestTheReplicasAndFurtherFlags(t *testing.T) {
	image := "registry.example.com:5000/team/skiff:v1@sha256:" + strings.Repeat("0a", 32)
	d, c := container(t, "--image", image, "--replicas", "3", "-n", "ops", "--controllers", "redis,restart",
		"--", "--template-policy", "restricted", "-v", "1")
	if c["image"] != image || lookup(d, "spec", "replicas") != 3 || lookup(d, "metadata", "namespace") != "ops" {
		t.Errorf("image %v, replicas %v in %v", c["image"], lookup(d, "spec", "replicas"), d["metadata"])
	}
	var args []string
	for _, a := range c["args"].([]any) {
		args = append(args, a.(string))
	}
	want := []string{"run", "--leader-elect", "--log-format=json", "--health-probe-bind-address=:8081",
		"--metrics-bind-address=:8080", "--controllers=redis,restart", "--template-policy", "restricted", "-v", "1"}
	if !slices.Equal(args, want) {
		t.Errorf("arguments %q, want %q", args, want)
	}
}

// What the Deployment says must be what `skiff run` takes.
func TestTheArgumentsOfTheDeploymentAreThoseOfRun(t *testing.T) {
	for _, flags := range [][]string{nil, {"--namespaced", "a,b", "--controllers", "redis"}} {
		_, c := container(t, flags...)
		run := newRun()
		var args []string
		for _, a := range c["args"].([]any) {
			args = append(args, a.(string))
		}
		if err := run.ParseFlags(args[1:]); err != nil || args[0] != "run" || run.Flags().NArg() != 0 {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestManifestsWithDefinitionsBeginWithThem(t *testing.T) {
	have := installed(t, "--crds")
	for _, name := range []string{"webservers", "redis", "restarttriggers"} {
		if have["CustomResourceDefinition /"+name+".skiff.dev"] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestManifestsWithRightsOnlyHaveNothingThatRuns(t *testing.T) {
	wantInstalled(t, installed(t, "--rbac-only", "--namespaced", "shop"), "ServiceAccount shop/skiff",
		"Role shop/skiff", "RoleBinding shop/skiff", "Role shop/skiff-leader-election",
		"RoleBinding shop/skiff-leader-election")
}

// What the policies say is tested with CEL, in internal/testcluster/cel and internal/tools/e2e.
func TestManifestsPrintTheAdmissionPoliciesAlone(t *testing.T) {
	const policy, binding = "ValidatingAdmissionPolicy /", "ValidatingAdmissionPolicyBinding /"
	have := installed(t, "--policies", "--controllers", "redis,restart")
	wantInstalled(t, have, policy+"skiff-templates", binding+"skiff-templates", policy+"skiff-sizes",
		binding+"skiff-sizes", policy+"skiff-adopt", binding+"skiff-adopt")
	rules := lookup(have[policy+"skiff-adopt"], "spec", "matchConstraints", "resourceRules").([]any)
	if resources := lookup(rules[0].(object), "resources").([]any); len(rules) != 1 || resources[0] != "redis" {
		t.Errorf("they are about %v", rules)
	}
	if selector := lookup(have[binding+"skiff-adopt"], "spec", "matchResources"); selector != nil {
		t.Errorf("they count in %v, want all namespaces", selector)
	}
	have = installed(t, "--policies", "--", "--template-policy=any")
	wantInstalled(t, have, policy+"skiff-sizes", binding+"skiff-sizes", policy+"skiff-adopt", binding+"skiff-adopt")
}

func TestTheAdmissionPoliciesOfSomeNamespacesCountInThese(t *testing.T) {
	const binding = "ValidatingAdmissionPolicyBinding /skiff-adopt"
	for flags, want := range map[string]string{
		"--namespaced shop,blog":                        "-blog: kubernetes.io/metadata.name In [blog shop]",
		"--watch-namespace-selector team in (a,b),!old": ": team In [a b], old DoesNotExist <nil>",
	} {
		flag, value, _ := strings.Cut(flags, " ")
		var got []string
		for id, body := range installed(t, "--policies", flag, value) {
			suffix, ok := strings.CutPrefix(id, binding)
			if !ok {
				continue
			}
			for _, e := range lookup(body, "spec", "matchResources", "namespaceSelector", "matchExpressions").([]any) {
				r := e.(object)
				got = append(got, fmt.Sprint(r["key"], " ", r["operator"], " ", r["values"]))
			}
			if text := suffix + ": " + strings.Join(got, ", "); text != want {
				t.Errorf("%s: %q, want %q", flags, text, want)
			}
		}
		if len(got) == 0 {
			t.Errorf("%s: no binding has a selector", flags)
		}
	}
}

// grant is one verb on one resource, "apps/deployments patch".
func grant(group, resource, verb string) string {
	if group != "" {
		resource = group + "/" + resource
	}
	return resource + " " + verb
}

// addGrants adds what a role allows.
func addGrants(out map[string]bool, role object) {
	rules, _ := role["rules"].([]any)
	for _, r := range rules {
		rule := r.(object)
		for _, group := range rule["apiGroups"].([]any) {
			for _, resource := range rule["resources"].([]any) {
				for _, verb := range rule["verbs"].([]any) {
					out[grant(group.(string), resource.(string), verb.(string))] = true
				}
			}
		}
	}
}
