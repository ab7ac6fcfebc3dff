package check

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/internal/install/definitions"
	"skiff/internal/install/manifests"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/podpolicy"
	"skiff/internal/testcluster/apiserver"
)

var (
	redis = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	pods  = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
)

// server is an embedded API server, with a client of it and the options for the check of a Redis controller.
func server(t *testing.T) (*apiserver.Server, Options) {
	t.Helper()
	return serverWith(t, apiserver.Options{}, nil)
}

func serverWith(t *testing.T, with apiserver.Options, as kube.Credentials) (*apiserver.Server, Options) {
	t.Helper()
	api := apiserver.New(with)
	t.Cleanup(api.Close)
	pipe := api.ListenPipe()
	t.Cleanup(func() { pipe.Close() })
	c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, Credentials: as})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	o := Options{Client: c, Namespaces: []string{"shop"}, Rights: []kube.Right{
		{Resource: redis, Verbs: []string{"list", "watch"}, Why: "what is declared"},
		{Resource: redis, Subresource: "status", Verbs: []string{"patch"}, Why: "what was seen"},
		{Resource: pods, Verbs: []string{"create", "delete"}, Why: "children"},
	}}
	if o.Definitions, err = definitions.All(); err != nil {
		t.Fatal(err)
	}
	return api, o
}

func install(t *testing.T, o Options, change func(spec map[string]any)) {
	t.Helper()
	d := o.Definitions[0] // that of Redis
	if change != nil {
		change(d.Object["spec"].(map[string]any))
		defer func() { _, fresh := server(t); o.Definitions[0] = fresh.Definitions[0] }()
	}
	if err := o.Client.Create(t.Context(), definitions.Resource, "", d.Object, nil, kube.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; { // the server establishes it in its own time
		_, err := o.Client.ListOne(t.Context(), kube.Query{Resource: redis})
		if err == nil {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the definition is not served: %v", err)
		}
	}
}

func run(t *testing.T, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAClusterThatHasAllIsFine(t *testing.T) {
	_, o := server(t)
	install(t, o, nil)
	r := run(t, o)
	if !r.OK || r.Manifest != "" || !r.Tested || r.Version == "" || r.User != "admin" || len(r.Scopes) != 1 ||
		r.Scopes[0].Checked != 5 || len(r.Definitions) != 1 ||
		r.Definitions[0] != (Definition{Name: "redis.skiff.dev", State: Installed,
			Detail: "the same as in this skiff"}) {
		t.Errorf("report: %+v", r)
	}
}

// as is a user by a token.
type as string

func (token as) Authorization(context.Context) (string, error) { return "Bearer " + string(token), nil }

func (as) Invalidate(time.Time) {}

func TestAServerWithoutRolesGrantsEverythingToEveryone(t *testing.T) {
	for name, test := range map[string]struct {
		rbac bool
		user as
		want bool
	}{
		"no roles":                      {false, "admin", true},
		"no roles, another user":        {false, "other", true},
		"roles":                         {true, "admin", false},
		"roles, a user who may not ask": {true, "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, o := serverWith(t, apiserver.Options{RBAC: test.rbac, Token: "admin",
				Users: map[string]apiserver.User{"other": {Name: "other"}}}, test.user)
			o.Definitions = nil
			if r := run(t, o); r.GrantsAll != test.want {
				t.Errorf("report: %+v", r)
			}
		})
	}
}

func TestADefinitionIsComparedWithThatOfThisVersion(t *testing.T) {
	for name, test := range map[string]struct {
		change func(spec map[string]any)
		want   Definition
	}{
		"missing": {nil, Definition{Name: "redis.skiff.dev", State: NotInstalled,
			Next: NextInstall}},
		"an older one": {func(spec map[string]any) {
			version := spec["versions"].([]any)[0].(map[string]any)
			schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
			delete(schema["properties"].(map[string]any), "status")
		}, Definition{Name: "redis.skiff.dev", State: Differs, Next: NextUpdate, Detail: "from that of " +
			"this skiff in spec.versions[name=\"v1alpha1\"].schema.openAPIV3Schema.properties.status"}},
		"without the status subresource": {func(spec map[string]any) {
			version := spec["versions"].([]any)[0].(map[string]any)
			delete(version["subresources"].(map[string]any), "status")
		}, Definition{Name: "redis.skiff.dev", State: Differs, Next: NextUpdate, Detail: "from that of " +
			"this skiff in spec.versions[name=\"v1alpha1\"].subresources.status"}},
		"with a short name more": {func(spec map[string]any) {
			names := spec["names"].(map[string]any)
			names["categories"] = []any{"all"}
		}, Definition{Name: "redis.skiff.dev", State: Installed, Detail: "the same as in this skiff"}},
		"with objects of another version": {func(spec map[string]any) {
			old := spec["versions"].([]any)[0].(map[string]any)
			next := maps.Clone(old)
			next["name"], old["storage"] = "v1", false
			spec["versions"] = []any{old, next}
		}, Definition{Name: "redis.skiff.dev", State: Differs, Detail: "from that of this skiff: objects may be " +
			"stored as v1, which it does not define; use a skiff that defines it"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, o := server(t)
			if test.change != nil {
				install(t, o, test.change)
			}
			if r := run(t, o); r.Definitions[0] != test.want || r.OK != (test.want.State == Installed) {
				t.Errorf("got %+v, want %+v", r.Definitions[0], test.want)
			}
		})
	}
}

// What every user may read says whether a definition is served, and with which fields. The whole of it needs a right
// that skiff itself does not, and a role for that is printed.
func TestWhoMayNotReadDefinitionsStillSeesWhichFieldsAreServed(t *testing.T) {
	const fields = "with all fields of this skiff; validation not compared: this user may not get " +
		"customresourcedefinitions"
	for name, test := range map[string]struct {
		change func(spec map[string]any)
		want   Definition
	}{
		"the same": {func(map[string]any) {},
			Definition{Name: "redis.skiff.dev", State: Installed, Fields: true, Detail: fields}},
		"an older one": {func(spec map[string]any) {
			version := spec["versions"].([]any)[0].(map[string]any)
			schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
			delete(schema["properties"].(map[string]any), "status")
		}, Definition{Name: "redis.skiff.dev", State: Differs, Fields: true,
			Next: NextAskInstall, Detail: "without the fields status"}},
	} {
		t.Run(name, func(t *testing.T) {
			api, o := server(t)
			api.Inject(apiserver.Fault{Resource: "customresourcedefinitions", Verb: "get",
				Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "no"}})
			if r := run(t, o); r.Definitions[0].State != NotInstalled || r.OK || r.Reader != "" {
				t.Errorf("before it is installed: %+v", r)
			}
			install(t, o, test.change)
			r := run(t, o)
			if r.Definitions[0] != test.want || r.OK != (test.want.State == Installed) {
				t.Errorf("got %+v, want %+v", r.Definitions, test.want)
			}
			rule := "resources: [customresourcedefinitions]\n    verbs: [get]\n"
			if !strings.Contains(r.Reader, rule) || r.Manifest != "" {
				t.Errorf("roles %q, and missing %q", r.Reader, r.Manifest)
			}
		})
	}
}

func TestADefinitionThatIsNotEstablishedIsMissingWithTheServersReason(t *testing.T) {
	api, o := server(t)
	api.Inject(apiserver.Fault{Resource: "customresourcedefinitions", Verb: "get",
		Reply: &apiserver.Reply{Code: 200, Body: `{"status":{"conditions":[{"type":"Established","status":"False",
			"message":"not yet"}]}}`}})
	want := Definition{Name: "redis.skiff.dev", State: NotEstablished, Detail: "not yet"}
	if r := run(t, o); r.Definitions[0] != want || r.OK {
		t.Errorf("got %+v, want %+v", r.Definitions, want)
	}
}

func TestADefinitionThatServesOtherVersionsOnlyIsNamedWithoutTheRightToReadIt(t *testing.T) {
	api, o := server(t)
	api.Inject(apiserver.Fault{Resource: "customresourcedefinitions", Verb: "get",
		Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "no"}})
	install(t, o, func(spec map[string]any) {
		old := spec["versions"].([]any)[0].(map[string]any)
		next := maps.Clone(old)
		next["name"], old["storage"] = "v1", false
		spec["versions"] = []any{old, next}
	})
	unserved := []any{map[string]any{"op": "replace", "path": "/spec/versions/0/served", "value": false}}
	if err := o.Client.Patch(t.Context(), definitions.Resource, kube.Key{Name: "redis.skiff.dev"}, kube.JSONPatch,
		unserved, nil, kube.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := Definition{Name: "redis.skiff.dev", State: Differs, Fields: true, Next: NextAskOrReplace,
		Detail: "served as v1, and this skiff needs v1alpha1"}
	for began := time.Now(); ; { // the server changes what it serves in its own time
		r := run(t, o)
		if r.Definitions[0] == want && !r.OK {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("got %+v, want %+v", r.Definitions, want)
		}
	}
}

func TestMissingRightsAreGrantedByWhatIsPrinted(t *testing.T) {
	for name, test := range map[string]struct {
		as, namespace string
		want          []string
	}{
		"a service account": {"system:serviceaccount:shop:skiff", "shop", []string{"kind: Role\n",
			"kind: RoleBinding\n",
			"  namespace: shop\n", "  - kind: ServiceAccount\n    name: \"skiff\"\n    namespace: \"shop\"\n"}},
		"a user, everywhere": {"Bob B", "", []string{"kind: ClusterRole\n", "kind: ClusterRoleBinding\n",
			"    kind: User\n    name: \"Bob B\"\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject{user: test.as}
			if rest, ok := strings.CutPrefix(test.as, "system:serviceaccount:"); ok {
				s.namespace, s.account, _ = strings.Cut(rest, ":")
			}
			text := grant(s, test.namespace, []kube.Right{{Resource: pods, Verbs: []string{"delete"}, Why: "x"}})
			rule := "  - apiGroups: [\"\"]\n    resources: [pods]\n    verbs: [delete]\n"
			for _, want := range append(test.want, rule) {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %s", want, text)
				}
			}
			for doc := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "---\n") {
				var object map[string]any
				if err := yaml.Unmarshal([]byte(doc), &object); err != nil || object["kind"] == nil {
					t.Errorf("%v: %s", err, doc)
				}
			}
			other := grant(s, test.namespace, []kube.Right{{Resource: pods, Verbs: []string{"list"}, Why: "x"}})
			if nameOf(text) == nameOf(other) {
				t.Error("what is printed for other rights would replace it")
			}
		})
	}
}

func nameOf(manifest string) string {
	_, rest, _ := strings.Cut(manifest, "  name: ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

func TestWhatCannotBeAskedIsAnErrorAndNotMissing(t *testing.T) {
	for name, test := range map[string]struct {
		fault apiserver.Fault
		want  string
	}{
		"no API server": {apiserver.Fault{Path: "/version", Reply: &apiserver.Reply{Code: 200, Body: "<html>"}},
			"/version: the response is not that of an API server"},
		"no answer": {apiserver.Fault{Resource: "selfsubjectaccessreviews", Reply: &apiserver.Reply{Code: 500,
			Reason: "InternalError", Message: "webhook down"}}, "ask whether "},
		"nobody": {apiserver.Fault{Resource: "selfsubjectreviews", Reply: &apiserver.Reply{Code: 403,
			Reason: "Forbidden", Message: "no"}}, "ask the server for the name of the user: "},
	} {
		t.Run(name, func(t *testing.T) {
			api, o := server(t)
			api.Inject(test.fault)
			if r, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, %v, want the error %q", r, err, test.want)
			}
		})
	}
}

// The embedded server has no admission policies without CEL. That skiff check finds those that are there is tested in
// internal/tools/e2e.
func TestAdmissionPoliciesAreMissedOnlyWhereTheyAreNeeded(t *testing.T) {
	_, o := server(t)
	install(t, o, nil)
	o.Templates = []manifests.Template{{Resource: redis, Container: "redis"}}
	r := run(t, o)
	if !r.OK || len(r.Policies) != 3 || r.Policies[0] != (Policy{Name: "skiff-templates", State: NotInstalled,
		Next: NextPolicy}) {
		t.Errorf("report: %+v", r)
	}
	o.NeedPolicies = true
	if r = run(t, o); r.OK {
		t.Errorf("with policies that are needed: %+v", r)
	}
}

func TestAnAdmissionPolicyThatLetsErrorsPassDiffers(t *testing.T) {
	o := Options{Templates: []manifests.Template{{Resource: redis, Container: "redis"}}}
	for failure, want := range map[string]string{"Fail": Installed, "Ignore": Differs} {
		object := manifests.Policies{Templates: o.Templates, TemplatePolicy: podpolicy.Baseline}.Objects()[0]
		object["spec"].(map[string]any)["failurePolicy"] = failure
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var live livePolicy
		if err := kube.Unmarshal(body, &live); err != nil {
			t.Fatal(err)
		}
		if p, err := o.comparePolicy(manifests.TemplatesPolicy, &live); err != nil || p.State != want {
			t.Errorf("failurePolicy %s: %+v, %v", failure, p, err)
		}
	}
}

func TestABindingCountsOnlyWhereItRefusesAll(t *testing.T) {
	binding := func(match string) *liveBinding {
		var b liveBinding
		if err := kube.Unmarshal([]byte(`{"metadata":{"name":"b"},"spec":{"policyName":"p",`+
			`"validationActions":["Deny"]`+match+`}}`), &b); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	in := func(namespaces string) string {
		return `,"matchResources":{"matchPolicy":"Equivalent","objectSelector":{},"namespaceSelector":{` +
			`"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":[` + namespaces + `]}]}}`
	}
	team := `,"matchResources":{"objectSelector":{},"namespaceSelector":{"matchLabels":{"team":"shop"}}}`
	for name, test := range map[string]struct {
		o        Options
		bindings []string
		want     bool
	}{
		"everywhere": {Options{}, []string{""}, true},
		"everywhere, as the server writes it": {Options{}, []string{
			`,"matchResources":{"namespaceSelector":{},"objectSelector":{}}`}, true},
		"not everywhere": {Options{}, []string{in(`"a"`)}, false},
		"in the namespaces": {Options{Namespaces: []string{"a", "b"}}, []string{in(`"b"`),
			in(`"a","c"`)}, true},
		"in one of two":       {Options{Namespaces: []string{"a", "b"}}, []string{in(`"a"`)}, false},
		"by the selector":     {Options{Selector: "team==shop"}, []string{team}, true},
		"by another selector": {Options{Selector: "team=blog"}, []string{team}, false},
		"of some objects": {Options{}, []string{
			`,"matchResources":{"objectSelector":{"matchLabels":{"a":"b"}}}`}, false},
		"but for some resources": {Options{}, []string{
			`,"matchResources":{"excludeResourceRules":[{"resources":["redis"]}]}`}, false},
		"of another policy": {Options{}, nil, false},
	} {
		var bindings []*liveBinding
		for _, match := range test.bindings {
			bindings = append(bindings, binding(match))
		}
		if got := test.o.refuses("p", bindings); got != test.want {
			t.Errorf("%s: refuses is %t", name, got)
		}
	}
}

func TestWhereAUserMayNotListAdmissionPoliciesTheyAreNotKnown(t *testing.T) {
	_, o := withRBAC(t)
	o.Templates = []manifests.Template{{Resource: redis, Container: "redis"}}
	r := run(t, o)
	if len(r.Policies) != 3 || r.Policies[2] != (Policy{Name: "skiff-adopt", State: NotKnown,
		Detail: "this user may not list validatingadmissionpolicies and their bindings"}) {
		t.Errorf("report: %+v", r.Policies)
	}
}
