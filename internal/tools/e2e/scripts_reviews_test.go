package e2e

import "strings"

// review is a kind that is only created, and stored nowhere: the server answers it at once.
type review struct {
	path, kind string
	spec       string   // what asks something
	bad        []string // specs that are refused
	as         string   // who asks, where the answer is about oneself
}

var reviewKinds = []review{
	{path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", kind: "SelfSubjectReview", as: "bob"},
	{path: "/apis/authentication.k8s.io/v1/tokenreviews", kind: "TokenReview", spec: `"token":"none"`,
		bad: []string{``, `"token":5`, `"token":"none","audiences":"a"`}},
	{path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", kind: "SelfSubjectAccessReview", as: "bob",
		spec: `"resourceAttributes":{"verb":"get","resource":"pods","namespace":"${NS}"}`,
		bad: []string{``, `"resourceAttributes":{},"nonResourceAttributes":{}`, `"resourceAttributes":"pods"`,
			`"resourceAttributes":{"verb":"list","resource":"pods","labelSelector":{"rawSelector":"a=b",
				"requirements":[{"key":"a","operator":"Exists"}]}}`}},
	{path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", kind: "SelfSubjectRulesReview", as: "bob",
		spec: `"namespace":"${NS}"`, bad: []string{``, `"namespace":5`}},
	{path: "/apis/authorization.k8s.io/v1/subjectaccessreviews", kind: "SubjectAccessReview",
		spec: `"user":"eve","nonResourceAttributes":{"verb":"get","path":"/none"}`,
		bad: []string{``, `"resourceAttributes":{"verb":"get","resource":"pods"}`, `"user":"eve"`,
			`"user":"eve","groups":"g","nonResourceAttributes":{"verb":"get","path":"/x"}`,
			`"user":"eve","resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"rawSelector":"a=b",
				"requirements":[{"key":"a","operator":"In","values":["b"]}]}}`}},
	{path: "/apis/authorization.k8s.io/v1/${ns}/localsubjectaccessreviews", kind: "LocalSubjectAccessReview",
		spec: `"user":"eve","resourceAttributes":{"verb":"get","resource":"pods","namespace":"${NS}"}`,
		bad: []string{``, `"user":"eve","resourceAttributes":{"verb":"get","resource":"pods","namespace":"other"}`,
			`"user":"eve","nonResourceAttributes":{"verb":"get","path":"/x"}`}},
}

// script is named KIND/review.
func (r review) script(table string) Script {
	version := strings.Join(strings.Split(r.path, "/")[2:4], "/")
	body := func(members, spec string) string {
		if r.kind != "SelfSubjectReview" { // which asks nothing
			members += `,"spec":{` + spec + `}`
		}
		return `{"apiVersion":"` + version + `","kind":"` + r.kind + `"` + members + `}`
	}
	post := func(name, query, body string) Step {
		return Step{Name: name, Method: "POST", Path: r.path + query, Body: body, As: r.as}
	}
	inTable := post("as a table", "", body("", r.spec))
	inTable.Accept = table
	steps := []Step{
		post("ask", "", body("", r.spec)), inTable,
		post("dry run", "?dryRun=All", body("", r.spec)),
		post("with metadata", "?fieldManager=me", body(`,"metadata":{"name":"n","labels":{"a":"b"}}`, r.spec)),
		post("in a namespace", "", body(`,"metadata":{"namespace":"${NS}"}`, r.spec)),
		post("with an answer", "", body(`,"status":{"allowed":true,"authenticated":true,"incomplete":true}`, r.spec)),
		post("unknown field", "?fieldValidation=Strict", body(`,"more":1`, r.spec)),
		post("unknown field, warned of", "?fieldValidation=Warn", body(`,"more":1`, r.spec)),
		post("without a kind", "", `{"spec":{`+r.spec+`}}`),
		post("of another kind", "", strings.Replace(body("", r.spec), r.kind, "Review", 1)),
		post("of another version", "", strings.Replace(body("", r.spec), "/v1", "/v7", 1)),
		post("no JSON", "", `{`), post("nothing", "", ``), post("bad dry run", "?dryRun=Some", body("", r.spec)),
	}
	for _, bad := range r.bad {
		steps = append(steps, post("bad: {"+bad+"}", "", body("", bad)))
	}
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
		for _, path := range []string{r.path, r.path + "/n"} {
			steps = append(steps, Step{Name: method + " " + path[len(r.path):], Method: method, Path: path,
				Body: map[string]string{"PUT": body("", r.spec), "PATCH": `{}`}[method]})
		}
	}
	return Script{Name: r.kind + "/review", Steps: append(steps,
		Step{Name: "watch", Path: r.path + "?watch=1"}, Step{Name: "below", Path: r.path + "/n/status"})}
}
