package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// webhookServer is a server of webhooks for one API server. It answers each path as answers says, and keeps what it is
// asked about objects other than "probe".
type webhookServer struct {
	*httptest.Server
	mu      sync.Mutex // guards what follows
	reviews []Answer
}

// webhookBodies are the answers by path, with UID for that of the review: what ends in a status code is sent with it.
var webhookBodies = map[string]string{}

func startWebhooks(t *testing.T) *webhookServer {
	h := &webhookServer{}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // one case does not trust the server
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *webhookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var review struct{ Request map[string]any }
	if err != nil || json.Unmarshal(body, &review) != nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	request := Object(review.Request)
	if request.Str("name") != "probe" && request.Str("desiredAPIVersion") == "" {
		delete(review.Request["userInfo"].(map[string]any), "uid") // that of the token file of the real server
		h.mu.Lock()
		h.reviews = append(h.reviews, Answer{Body: map[string]any{"path": r.URL.String(), "review": review.Request,
			"agent": r.UserAgent(), "type": r.Header.Get("Content-Type"), "accept": r.Header.Get("Accept")}})
		h.mu.Unlock()
	}
	switch answer, ok := webhookBodies[r.URL.Path]; {
	case r.URL.Path == "/slow":
		<-r.Context().Done()
	case r.URL.Path == "/convert":
		convert(w, request)
	case !ok:
		fmt.Fprint(w, strings.ReplaceAll(reviewed(`"allowed":true`), "UID", request.Str("uid")))
	case strings.HasPrefix(answer, "HTTP "):
		var code int
		fmt.Sscan(answer[5:8], &code)
		http.Error(w, answer[8:], code)
	default:
		fmt.Fprint(w, strings.ReplaceAll(answer, "UID", request.Str("uid")))
	}
}

// clientConfig is a clientConfig for a path of this server.
func (h *webhookServer) clientConfig(path string) string {
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	return fmt.Sprintf(`{"url":%q,"caBundle":%q}`, h.URL+path, base64.StdEncoding.EncodeToString(bundle))
}

func reviewed(response string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"UID",` + response + `}}`
}

func patching(ops string) string {
	return reviewed(`"allowed":true,"patchType":"JSONPatch","patch":"` +
		base64.StdEncoding.EncodeToString([]byte(ops)) + `"`)
}

// webhookCase is a webhook that is called for ConfigMaps whose label case has its name.
type webhookCase struct {
	name, kind string // mutating or validating
	answer     string
	more       string // members of the webhook
}

var webhookCases = []webhookCase{
	{"allow", "validating", reviewed(`"allowed":true,"warnings":["one","two","one"]`), ""},
	{"deny", "validating", reviewed(`"allowed":false`), ""},
	{"deny-why", "validating", reviewed(`"status":{"code":418,"reason":"Teapot","message":"short","details":{
		"name":"n","causes":[{"field":"f","message":"m","reason":"r"}]}},"warnings":["still"]`), ""},
	{"deny-reason", "mutating", reviewed(`"status":{"reason":"Because"}`), ""},
	{"deny-403", "mutating", reviewed(`"status":{"code":403,"message":"no"}`), ""},
	{"deny-low", "validating", reviewed(`"status":{"code":200,"status":"Success","message":"no"}`), ""},
	{"mutate", "mutating", patching(`[{"op":"add","path":"/data/added","value":"x"},
		{"op":"add","path":"/metadata/labels/added","value":"x"},{"op":"add","path":"/unknown","value":"x"}]`), ""},
	{"mutate-name", "mutating", patching(`[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}},
		{"op":"replace","path":"/metadata/name","value":"renamed"}]`), ""},
	{"mutate-place", "mutating", patching(`[{"op":"replace","path":"/metadata/namespace","value":"default"}]`), ""},
	{"mutate-uid", "mutating", patching(`[{"op":"add","path":"/metadata/uid","value":"another"}]`), ""},
	{"mutate-version", "mutating", patching(`[{"op":"add","path":"/metadata/resourceVersion","value":"1"}]`), ""},
	{"managed", "mutating", patching(`[{"op":"add","path":"/metadata/managedFields","value":[{"manager":"hook",
		"operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]}]`), ""},
	{"managed-bad", "mutating", patching(`[{"op":"add","path":"/metadata/managedFields","value":[{"manager":"hook",
		"operation":"Some","apiVersion":"v1"}]}]`), ""},
	{"managed-none", "mutating", patching(`[{"op":"remove","path":"/metadata/managedFields"}]`), ""},
	{"mutate-type", "mutating", patching(`[{"op":"add","path":"/data","value":"x"}]`), ""},
	{"mutate-invalid", "mutating", patching(`[{"op":"add","path":"/data/a b","value":"x"}]`), ""},
	{"mutate-nothing", "mutating", patching(`[]`), ""},
	{"mutate-missing", "mutating", patching(`[{"op":"remove","path":"/data/none"}]`), ""},
	{"mutate-no-list", "mutating", patching(`{}`), ""},
	{"mutate-no-json", "mutating", patching(`[`), ""},
	{"other-type", "mutating", strings.Replace(patching(`[{"op":"remove","path":"/data"}]`), "JSONPatch", "Other", 1), ""},
	{"patch-untyped", "mutating", reviewed(`"allowed":true,"patch":"W10="`), ""},
	{"type-alone", "mutating", reviewed(`"allowed":true,"patchType":"JSONPatch"`), ""},
	{"validating-patch", "validating", reviewed(`"allowed":true,"patch":"W10="`), ""},
	{"validating-type", "validating", reviewed(`"allowed":true,"patchType":"JSONPatch"`), ""},
	{"wrong-uid", "validating", strings.Replace(reviewed(`"allowed":true`), "UID", "another", 1), ""},
	{"no-response", "validating", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, ""},
	{"no-kind", "validating", `{"response":{"uid":"UID","allowed":true}}`, ""},
	{"other-kind", "validating", strings.Replace(reviewed(`"allowed":true`), "AdmissionReview", "Review", 1), ""},
	{"other-version", "validating", strings.Replace(reviewed(`"allowed":true`), "io/v1", "io/v2", 1), ""},
	{"wrong-type", "validating", reviewed(`"allowed":"yes"`), ""},
	{"no-json", "validating", `hello`, ""},
	{"empty", "validating", ``, ""},
	{"empty-ignored", "mutating", ``, `,"failurePolicy":"Ignore"`},
	{"deny-ignored", "mutating", reviewed(`"allowed":false`), `,"failurePolicy":"Ignore"`},
	{"http-500", "validating", `HTTP 500 oh no`, ""},
	{"http-404", "validating", `HTTP 404 oh no`, ""},
	{"http-403", "validating", `HTTP 403 oh no`, ""},
	{"http-418", "validating", `HTTP 418 oh no`, ""},
	{"slow", "validating", ``, `,"timeoutSeconds":1`},
	{"slow-ignored", "mutating", ``, `,"timeoutSeconds":1,"failurePolicy":"Ignore"`},
	{"old", "mutating", `{"response":{"allowed":true,"patch":"` + base64.StdEncoding.EncodeToString(
		[]byte(`[{"op":"add","path":"/data/old","value":"x"}]`)) + `"}}`, `,"admissionReviewVersions":["v1beta1","v1"]`},
	{"dead", "validating", ``, `,"clientConfig":{"url":"https://127.0.0.1:1/x"}`},
	{"untrusted", "validating", ``, `,"clientConfig":{"url":"${HOOKS}/x"}`},
	{"service", "validating", ``, `,"clientConfig":{"service":{"name":"none","namespace":"default","path":"/a"}}`},
}

// answersScript writes a ConfigMap for each case.
func answersScript(_ *testing.T, h *webhookServer) Script {
	hooks := map[string][]string{}
	var steps []Step
	for _, c := range webhookCases {
		path := "/" + c.name
		if strings.HasPrefix(c.name, "slow") {
			path = "/slow"
		}
		webhookBodies[path] = c.answer
		hooks[c.kind] = append(hooks[c.kind], h.webhook("hooks-answers", c.name, path, fmt.Sprintf(`,"objectSelector":{
			"matchLabels":{"case":%q}}%s`, c.name, c.more)))
		steps = append(steps, Step{Name: c.name, Method: "POST", Path: "/api/v1/${ns}/configmaps",
			Body: fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"case":%q}},"data":{"a":"b"}}`, c.name, c.name)})
	}
	// "again" is called a second time because of "change", but not a third time because of itself.
	webhookBodies["/again"] = patching(`[{"op":"add","path":"/data/again","value":"x"}]`)
	webhookBodies["/change"] = patching(`[{"op":"add","path":"/data/change","value":"x"}]`)
	for _, name := range []string{"again", "change", "after"} {
		hooks["mutating"] = append(hooks["mutating"], h.webhook("hooks-answers", name, "/"+name,
			`,"objectSelector":{"matchLabels":{"case":"again"}},"reinvocationPolicy":"IfNeeded"`))
	}
	for _, c := range []string{"managed", "managed-bad", "managed-none", "mutate-name", "mutate-place", "mutate-uid",
		"mutate-version"} {
		steps = append(steps, Step{Name: "create for " + c, Method: "POST", Path: "/api/v1/${ns}/configmaps",
			Body: fmt.Sprintf(`{"metadata":{"name":"update-%s"},"data":{"x":"y"}}`, c)},
			Step{Name: "update: " + c, Method: "PATCH", Type: mergePatch, Path: "/api/v1/${ns}/configmaps/update-" + c,
				Body: fmt.Sprintf(`{"metadata":{"labels":{"case":%q}},"data":{"a":"b"}}`, c)})
	}
	steps = append(steps, Step{Name: "again", Method: "POST", Path: "/api/v1/${ns}/configmaps",
		Body: `{"metadata":{"generateName":"generated-","labels":{"case":"again"}},"data":{"a":"b"}}`},
		Step{Name: "list", Path: "/api/v1/${ns}/configmaps"})
	return Script{Name: "hooks-answers", Steps: append(h.configure("hooks-answers", hooks), steps...)}
}

// webhook is one that is called for objects in a namespace.
func (h *webhookServer) webhook(namespace, name, path, more string) string {
	fields := map[string]string{"name": fmt.Sprintf("%q", name+".hooks.test"), "sideEffects": `"None"`,
		"admissionReviewVersions": `["v1"]`, "clientConfig": h.clientConfig(path),
		"namespaceSelector": fmt.Sprintf(`{"matchLabels":{"kubernetes.io/metadata.name":%q}}`, namespace),
		"rules": `[{"operations":["*"],"apiGroups":["","apps","autoscaling"],"apiVersions":["*"],
			"resources":["*","*/*"]}]`}
	fields["rules"] = strings.Replace(fields["rules"], `"*","*/*"`, `"*/*"`, 1)
	var out []string
	for field, v := range fields {
		if !strings.Contains(more, `,"`+field+`":`) {
			out = append(out, fmt.Sprintf("%q:%s", field, v))
		}
	}
	more = strings.ReplaceAll(more, "${HOOKS}", h.URL)
	return "{" + strings.Join(out, ",") + more + "}"
}

// configure makes the steps that store configurations and wait until they are in force.
func (h *webhookServer) configure(name string, hooks map[string][]string) []Step {
	var steps []Step
	for _, kind := range []string{"mutating", "validating"} {
		webhookBodies["/probe-"+kind] = reviewed(`"allowed":true,"warnings":["` + kind + `"]`)
		if kind == "validating" {
			webhookBodies["/probe-"+kind] = reviewed(`"status":{"message":"in force"}`)
		}
		all := append(hooks[kind], h.webhook(name, "probe-"+kind, "/probe-"+kind,
			`,"objectSelector":{"matchLabels":{"case":"probe"}}`))
		steps = append(steps, Step{Name: "configure " + kind, Method: "POST",
			Path:    "/apis/admissionregistration.k8s.io/v1/" + kind + "webhookconfigurations",
			Body:    fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[%s]}`, name, strings.Join(all, ",")),
			Capture: map[string]string{kind: "metadata.uid"}})
	}
	return append(steps, Step{Name: "in force", Method: "POST", Path: "/api/v1/${ns}/configmaps?dryRun=All",
		Body: `{"metadata":{"name":"probe","labels":{"case":"probe"}}}`, Until: "in force"})
}

// The embedded server asks webhooks what the real one asks, and acts on their answers in the same way.
func TestWebhooksAreCalledAsByTheRealServer(t *testing.T) {
	cluster := ownCluster(t)
	compareWithWebhooks(t, cluster.Admin, answersScript, writesScript, matchingScript, configurationsScript)
}

// compareWithWebhooks runs scripts on both servers, each of which has webhooks of its own, and compares the answers
// and the reviews.
func compareWithWebhooks(t *testing.T, realAPI *API, scripts ...func(*testing.T, *webhookServer) Script) {
	fake := startFake(t)
	for _, script := range scripts {
		var trees [2][]any
		var names []string
		for i, api := range []*API{realAPI, fake} {
			h := startWebhooks(t)
			s := script(t, h)
			s.Settled = true
			answers, err := RunScript(t.Context(), api, s)
			if err != nil {
				t.Fatalf("%s: %v", []string{"real server", "embedded server"}[i], err)
			}
			h.mu.Lock()
			slices.SortStableFunc(h.reviews, func(a, b Answer) int { // validating ones are called at the same time
				return strings.Compare(Object(a.Body.(map[string]any)).Str("path"),
					Object(b.Body.(map[string]any)).Str("path"))
			})
			all := append(answers, h.reviews...)
			h.mu.Unlock()
			text := must(json.Marshal(all))(t)
			all = nil
			bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
				Bytes: h.Certificate().Raw}))
			if err := json.Unmarshal([]byte(strings.NewReplacer(h.URL, "https://hooks", h.Listener.Addr().String(),
				"hooks", bundle, "BUNDLE").Replace(string(text))), &all); err != nil {
				t.Fatal(err)
			}
			if trees[i], err = Normalize(all); err != nil {
				t.Fatal(err)
			}
			names = nil
			for _, step := range s.Steps {
				names = append(names, step.Name)
			}
		}
		for i := range max(len(trees[0]), len(trees[1])) {
			name := fmt.Sprint("review ", i-len(names))
			if i < len(names) {
				name = names[i]
			} else if i >= len(trees[0]) || i >= len(trees[1]) {
				t.Errorf("the real server has sent %d reviews, the embedded one %d", len(trees[0])-len(names),
					len(trees[1])-len(names))
				break
			}
		differences:
			for _, d := range Compare("", trees[0][i], trees[1][i]) {
				for _, a := range webhookAllowances {
					if a.Allows("", name, d) {
						continue differences
					}
				}
				t.Errorf("step %q: %s", name, d)
			}
		}
	}
}

// webhookAllowances are the differences that are known.
var webhookAllowances = []*Allowance{
	{Script: "*", Step: "* in v*", Path: "Body.metadata.managedFields", Why: "the real server has the webhook " +
		"convert what has owners, too, and forgets all owners when it cannot use the answer; the embedded one does " +
		"not ask"},
	{Script: "*", Step: "wrong: uid", Path: "Body.message", Why: "it has the uid"},
	{Script: "*", Step: "mutate-missing", Path: "Body.*message", Why: "the words of another JSON patch library"},
	{Script: "*", Step: "review *", Path: "Body.review.*bject.metadata.managedFields", Why: "no owners are kept of " +
		"the fields of objects that are not stored: Scale, Binding, Eviction"},
	{Script: "*", Step: "review *", Path: "Body.review.object.status.current*",
		Why: "the empty status of a scaler of v1 in v2"},
}

// writesScript makes writes of all sorts, of which webhooks are told.
func writesScript(t *testing.T, h *webhookServer) Script {
	const name = "hooks-writes"
	hooks := map[string][]string{"mutating": {h.webhook(name, "seen-m", "/seen-m", "")},
		"validating": {h.webhook(name, "seen-v", "/seen-v", "")}}
	s := readScript(t, "webhooks/"+name+".txtar", nil)
	s.Steps = append(h.configure(name, hooks), s.Steps...)
	return s
}

// matchingScript has webhooks for equivalent resources, and some that match nothing.
func matchingScript(t *testing.T, h *webhookServer) Script {
	const name = "hooks-matching"
	rule := func(group, version, resource, more string) string {
		return fmt.Sprintf(`,"rules":[{"operations":["CREATE","UPDATE"],"apiGroups":[%q],"apiVersions":[%q],
			"resources":[%q]%s}]`, group, version, resource, more)
	}
	patched := patching(`[{"op":"add","path":"/metadata/labels","value":{"patched":"x"}}]`)
	webhookBodies["/equivalent"] = patched
	hooks := map[string][]string{"mutating": {
		h.webhook(name, "equivalent", "/equivalent", rule("autoscaling", "v2", "horizontalpodautoscalers", "")),
		h.webhook(name, "exact", "/exact", rule("autoscaling", "v2", "horizontalpodautoscalers", "")+
			`,"matchPolicy":"Exact"`),
	}, "validating": {
		h.webhook(name, "equivalent", "/seen", rule("autoscaling", "v1", "*", "")),
		h.webhook(name, "cluster", "/cluster", rule("", "v1", "configmaps", `,"scope":"Cluster"`)),
		h.webhook(name, "namespaced", "/namespaced", rule("", "v1", "configmaps", `,"scope":"Namespaced"`)),
		h.webhook(name, "status", "/status", rule("", "*", "*/status", "")),
		h.webhook("default", "elsewhere", "/elsewhere", rule("*", "*", "*/*", "")),
		h.webhook(name, "expression", "/expression", rule("", "v1", "configmaps", "")+`,"objectSelector":{
			"matchExpressions":[{"key":"a","operator":"In","values":["b","c"]},{"key":"d","operator":"DoesNotExist"}]}`),
		h.webhook(name, "namespaces", "/namespaces", `,"rules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],
			"resources":["namespaces","namespaces/*"]}]`+strings.Replace(`,"namespaceSelector":{"matchLabels":{"own":"x"}}`,
			"x", name, 1)),
	}}
	s := readScript(t, "webhooks/"+name+".txtar", nil)
	s.Steps = append(h.configure(name, hooks), s.Steps...)
	return s
}

// configurationsScript writes configurations that are not accepted, and reads the defaults of one that is.
func configurationsScript(_ *testing.T, h *webhookServer) Script {
	const path = "/apis/admissionregistration.k8s.io/v1/"
	var steps []Step
	for name, more := range map[string]string{
		"good": "", "name": `,"name":"a.b"`, "no name": `,"name":""`, "no effects": `,"sideEffects":"Some"`,
		"timeout": `,"timeoutSeconds":31`, "policy": `,"failurePolicy":"Maybe","matchPolicy":"Similar"`,
		"versions": `,"admissionReviewVersions":["v2","v2"]`, "no versions": `,"admissionReviewVersions":[]`,
		"no client": `,"clientConfig":{}`, "two clients": `,"clientConfig":{"url":"https://a","service":{"name":"a"}}`,
		"http": `,"clientConfig":{"url":"http://u:p@a/b?c#d"}`, "no host": `,"clientConfig":{"url":"https:///x"}`,
		"no url":        `,"clientConfig":{"url":"https://%zz"}`,
		"service":       `,"clientConfig":{"service":{"name":"a","namespace":"b"}}`,
		"service paths": `,"clientConfig":{"service":{"name":"","namespace":"","port":70000,"path":"a//B"}}`,
		"service path":  `,"clientConfig":{"service":{"name":"a","namespace":"b","path":"//"}}`,
		"rules": `,"rules":[{"operations":["*","CREATE"],"apiGroups":["*","a"],"apiVersions":["*","v1"],
			"resources":["*/*","pods"],"scope":"Some"},{"operations":["MOVE"],"apiGroups":[],"apiVersions":[""],
			"resources":["*","pods","pods/*","pods/log","*/log","a/log",""]},{}]`,
		"selectors":    `,"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"Like"}]}`,
		"reinvocation": `,"reinvocationPolicy":"Always"`,
	} {
		for _, kind := range []string{"mutating", "validating"} {
			if name == "reinvocation" && kind == "validating" {
				continue
			}
			steps = append(steps, Step{Name: kind + ": " + name, Method: "POST", Path: path + kind +
				"webhookconfigurations?dryRun=All", Body: fmt.Sprintf(`{"metadata":{"name":"c"},"webhooks":[%s]}`,
				h.webhook("x", "hook", "/x", more))})
		}
	}
	slices.SortFunc(steps, func(a, b Step) int { return strings.Compare(a.Name, b.Name) })
	two := h.webhook("x", "hook", "/x", "")
	steps = append(steps, Step{Name: "the same name twice", Method: "POST",
		Path: path + "validatingwebhookconfigurations", Body: fmt.Sprintf(`{"metadata":{"name":"c"},"webhooks":[%s,%s]}`, two, two)})
	return Script{Name: "hooks-configurations", Steps: steps}
}

// convert answers a ConversionReview: field a of v1 is field b of v2. What is wrong with the answer is in the field.
func convert(w http.ResponseWriter, request Object) {
	to := request.Str("desiredAPIVersion")
	var out []any
	for _, o := range request.List("objects") {
		spec, _ := o["spec"].(map[string]any)
		meta, _ := o["metadata"].(map[string]any)
		if o["apiVersion"] = to; meta == nil { // field managers ask about parts of objects
			meta = map[string]any{}
			o["metadata"] = meta
		}
		if spec == nil {
			out = append(out, o)
			continue
		}
		from, into := "a", "b"
		if strings.HasSuffix(to, "v1") {
			from, into = into, from
		}
		value, _ := spec[from].(string)
		delete(spec, from)
		spec[into] = value
		meta["annotations"], meta["finalizers"] = map[string]any{"converted": "yes"}, []any{"ignored.test/x"}
		switch value {
		case "name":
			meta["name"] = "another"
		case "uid":
			meta["uid"] = "another"
		case "kind":
			o["kind"] = "Other"
		case "version":
			o["apiVersion"] = "hooks.test/v3"
		case "label":
			meta["labels"] = map[string]any{"a": 1}
		case "no metadata":
			delete(o, "metadata")
		case "none":
			continue
		case "failed":
			fmt.Fprintf(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":%q,
				"result":{"status":"Failed","message":"I fail"}}}`, request.Str("uid"))
			return
		}
		out = append(out, o)
	}
	text, err := json.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":%q,
		"result":{"status":"Success"},"convertedObjects":%s}}`, request.Str("uid"), text)
}

// conversionScript writes and reads custom resources in two versions.
func conversionScript(t *testing.T, h *webhookServer) Script {
	return readScript(t, "webhooks/conversion.txtar", Vars{"client": h.clientConfig("/convert")})
}

// What webhooks convert is served as by a real server.
func TestWebhooksConvertAsForTheRealServer(t *testing.T) {
	compareWithWebhooks(t, ownCluster(t).Admin, conversionScript)
}
