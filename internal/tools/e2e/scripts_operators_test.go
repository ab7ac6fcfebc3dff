package e2e

func script(name string, steps ...Step) Script { return Script{Name: name, Steps: steps} }

func read(step, path string) Step { return Step{Name: step, Path: path} }

func deleted(step, path, options string) Step {
	return Step{Name: step, Method: "DELETE", Path: path, Body: options}
}

func replaced(step, path, body string) Step {
	return Step{Name: step, Method: "PUT", Path: path, Body: body}
}

func merged(step, path, body string) Step {
	return Step{Name: step, Method: "PATCH", Path: path, Type: strategicPatch, Body: body}
}

func edited(step, path, operations string) Step {
	return Step{Name: step, Method: "PATCH", Path: path, Type: jsonPatch, Body: operations}
}

func applied(step, path, body string) Step {
	return Step{Name: step, Method: "PATCH", Path: path, Type: applyPatch, Body: body}
}

// capturing is the step with these values of its answer kept.
func capturing(s Step, paths ...string) Step {
	s.Capture = map[string]string{}
	for i := 0; i < len(paths); i += 2 {
		s.Capture[paths[i]] = paths[i+1]
	}
	return s
}

// madeMap creates the ConfigMap a with these other members of its metadata, and keeps its uid and version.
func madeMap(metadata string) Step {
	return capturing(created("create", configMaps, metaOnly(`"name":"a"`+metadata)), "uid", "metadata.uid", "rv",
		"metadata.resourceVersion")
}

const (
	mapA     = configMaps + "/a"
	webPath  = deployments + "/web"
	customA  = webServers + "/web"
	ownedByA = `{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"${uid}"`
	waits    = `,"finalizers":["example.com/one","example.com/two"]`
)

// ofMap is an applied ConfigMap a.
func ofMap(metadata, members string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"` + metadata + `}` + members + `}`
}

// operatorScripts are what the authors of operators rely on.
var operatorScripts = []Script{
	script("owners/one", madeMap(""),
		created("child", configMaps, metaOnly(`"name":"b","ownerReferences":[`+ownedByA+`,"controller":true}]`)),
		changed("another owner", configMaps+"/b",
			`{"metadata":{"ownerReferences":[`+ownedByA+`},{"apiVersion":"apps/v1",
			"kind":"Deployment","name":"d","uid":"u"}]}}`),
		merged("merged by uid", configMaps+"/b", `{"metadata":{"ownerReferences":[`+ownedByA+`,
			"blockOwnerDeletion":true}]}}`),
		merged("taken out by uid", configMaps+"/b",
			`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"u"}]}}`),
		changed("none", configMaps+"/b", `{"metadata":{"ownerReferences":null}}`)),
	script("owners/refused", madeMap(""),
		changed("two controllers", mapA, `{"metadata":{"ownerReferences":[`+ownedByA+`,"controller":true},
			{"apiVersion":"v1","kind":"Pod","name":"b","uid":"u","controller":true}]}}`),
		changed("no uid", mapA, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"b"}]}}`),
		changed("an Event", mapA, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"b",
			"uid":"u"}]}}`),
		changed("bad version", mapA, `{"metadata":{"ownerReferences":[{"apiVersion":"a/b/c","kind":"Pod","name":"b",
			"uid":"u"}]}}`)),
	script("owners/foreground", madeMap(""),
		created("child", configMaps, metaOnly(`"name":"b","ownerReferences":[`+ownedByA+`,"blockOwnerDeletion":true}]`)),
		deleted("in the foreground", mapA, `{"propagationPolicy":"Foreground"}`), read("waits", mapA),
		read("the child is there", configMaps+"/b"),
		deleted("once more", mapA, ""),
		deleted("in the background after all", mapA, `{"propagationPolicy":"Background"}`),
		read("gone", mapA)),
	script("owners/orphan", madeMap(waits),
		deleted("orphan", mapA, `{"propagationPolicy":"Orphan"}`), read("waits", mapA),
		deleted("in the foreground after all", mapA, `{"propagationPolicy":"Foreground"}`), read("changed", mapA),
		changed("orphaned", mapA, `{"metadata":{"finalizers":["example.com/one"]}}`),
		changed("let go", mapA, `{"metadata":{"finalizers":[]}}`), read("gone", mapA)),
	script("owners/applied",
		applied("first", mapA+"?fieldManager=first",
			ofMap(`,"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p",
			"uid":"1"}]`, "")),
		applied("second", mapA+"?fieldManager=second", ofMap(`,"ownerReferences":[{"apiVersion":"v1","kind":"Pod",
			"name":"q","uid":"2"}]`, "")),
		applied("conflict", mapA+"?fieldManager=third", ofMap(`,"ownerReferences":[{"apiVersion":"v1","kind":"Pod",
			"name":"r","uid":"2"}]`, "")),
		applied("first leaves", mapA+"?fieldManager=first", ofMap("", "")), read("left", mapA)),
	script("finalizers/in order", madeMap(waits), deleted("delete", mapA, ""),
		edited("the second is not yet first", mapA, `[{"op":"test","path":"/metadata/finalizers/0",
			"value":"example.com/two"},{"op":"remove","path":"/metadata/finalizers/0"}]`),
		edited("the first", mapA, `[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/one"},
			{"op":"remove","path":"/metadata/finalizers/0"}]`),
		changed("labels change still", mapA, `{"metadata":{"labels":{"a":"b"}},"data":{"a":"b"}}`),
		changed("no new one", mapA, `{"metadata":{"finalizers":["example.com/two","example.com/three"]}}`),
		created("the name is taken", configMaps, metaOnly(`"name":"a"`)),
		edited("the last", mapA, `[{"op":"remove","path":"/metadata/finalizers"}]`), read("gone", mapA),
		created("the name is free", configMaps, metaOnly(`"name":"a"`))),
	script("finalizers/of a pod", created("create", podsPath, `{"metadata":{"name":"p","finalizers":["a.b/c"]},
		"spec":{"nodeName":"n","terminationGracePeriodSeconds":20,"containers":[{"name":"c","image":"i"}]}}`),
		deleted("gracefully", podsPath+"/p", ""), deleted("sooner", podsPath+"/p", `{"gracePeriodSeconds":5}`),
		deleted("later has no effect", podsPath+"/p", `{"gracePeriodSeconds":60}`),
		changed("without the finalizer", podsPath+"/p", `{"metadata":{"finalizers":null}}`),
		deleted("now", podsPath+"/p", `{"gracePeriodSeconds":0}`), read("gone", podsPath+"/p")),
	script("finalizers/deletion cannot be undone", madeMap(waits), deleted("delete", mapA, ""),
		changed("by a patch", mapA, `{"metadata":{"deletionTimestamp":null}}`),
		edited("by a JSON patch", mapA, `[{"op":"remove","path":"/metadata/deletionTimestamp"}]`),
		replaced("by an update", mapA, ofMap(waits, "")),
		applied("by an apply", mapA+"?fieldManager=m", ofMap(`,"deletionTimestamp":"2030-01-01T00:00:00Z"`, "")),
		read("still", mapA)),
	script("preconditions/update", madeMap(""),
		replaced("of that version", mapA, ofMap(`,"resourceVersion":"${rv}"`, `,"data":{"a":"b"}`)),
		replaced("of an old version", mapA, ofMap(`,"resourceVersion":"${rv}"`, `,"data":{"a":"c"}`)),
		replaced("of version 0", mapA, ofMap(`,"resourceVersion":"0"`, `,"data":{"a":"d"}`)),
		replaced("of no number", mapA, ofMap(`,"resourceVersion":"x"`, "")),
		replaced("of the future", mapA, ofMap(`,"resourceVersion":"99999999"`, "")),
		replaced("of that uid", mapA, ofMap(`,"uid":"${uid}"`, `,"data":{"a":"e"}`)),
		replaced("of another uid", mapA, ofMap(`,"uid":"11111111-2222-3333-4444-555555555555"`, ""))),
	script("preconditions/patch", madeMap(""), changed("of that version", mapA,
		`{"metadata":{"resourceVersion":"${rv}","labels":{"a":"b"}}}`),
		changed("of an old version", mapA, `{"metadata":{"resourceVersion":"${rv}","labels":{"a":"c"}}}`),
		merged("strategic, of an old version", mapA, `{"metadata":{"resourceVersion":"${rv}","labels":{"a":"c"}}}`),
		edited("tested", mapA, `[{"op":"test","path":"/metadata/resourceVersion","value":"${rv}"},
			{"op":"add","path":"/data","value":{"a":"b"}}]`),
		applied("applied to an old version", mapA+"?fieldManager=m", ofMap(`,"resourceVersion":"${rv}"`,
			`,"data":{"a":"b"}`)),
		changed("of that uid", mapA, `{"metadata":{"uid":"${uid}","labels":{"a":"d"}}}`),
		changed("of another uid", mapA, `{"metadata":{"uid":"11111111-2222-3333-4444-555555555555"}}`),
		applied("applied to another uid", mapA+"?fieldManager=m",
			ofMap(`,"uid":"11111111-2222-3333-4444-555555555555"`, ""))),
	script("preconditions/delete", capturing(created("custom", webServers, webServerBody), "uid", "metadata.uid", "rv",
		"metadata.resourceVersion"), changed("change", customA, `{"spec":{"replicas":3}}`),
		deleted("old version", customA, `{"preconditions":{"resourceVersion":"${rv}"}}`),
		deleted("other uid", customA, `{"preconditions":{"uid":"x","resourceVersion":"${rv}"}}`),
		deleted("that uid, dry run", customA+"?dryRun=All", `{"preconditions":{"uid":"x"}}`),
		deleted("in the query it is ignored", customA+"?preconditions.uid=x&dryRun=All", ""),
		deleted("of the collection", webServers, `{"preconditions":{"uid":"x"}}`),
		deleted("that uid", customA, `{"preconditions":{"uid":"${uid}"}}`)),
	script("status/of a custom resource", capturing(created("create", webServers, webServerBody), "rv",
		"metadata.resourceVersion"),
		replaced("without a version", customA+"/status", webServerBody),
		replaced("spec and labels are ignored", customA+"/status",
			`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer",
			"metadata":{"name":"web","resourceVersion":"${rv}","labels":{"a":"b"},"finalizers":["a.b/c"]},"spec":{"image":"x"},
			"status":{"replicas":1}}`),
		edited("JSON patch", customA+"/status", `[{"op":"replace","path":"/status/replicas","value":2},
			{"op":"replace","path":"/spec/image","value":"y"}]`),
		changed("unknown field", customA+"/status?fieldValidation=Strict", `{"status":{"typo":1}}`),
		changed("all of it goes", customA+"/status", `{"status":null}`), read("read", customA)),
	script("status/of a Deployment",
		created("create with a status", deployments, deploymentBody[:len(deploymentBody)-1]+
			`,"status":{"replicas":3}}`),
		merged("two conditions", webPath+"/status", `{"status":{"conditions":[{"type":"Available","status":"True"},
			{"type":"Progressing","status":"True"}]}}`),
		merged("merged by type", webPath+"/status", `{"status":{"conditions":[{"type":"Available","status":"False",
			"reason":"R"}]}}`),
		merged("taken out by type", webPath+"/status",
			`{"status":{"conditions":[{"$patch":"delete","type":"Available"}]}}`),
		changed("more ready than there are", webPath+"/status", `{"status":{"replicas":1,"readyReplicas":2}}`),
		changed("more available than ready", webPath+"/status", `{"status":{"replicas":3,"readyReplicas":1,
			"availableReplicas":2,"updatedReplicas":4}}`),
		created("StatefulSet", "/apis/apps/v1/${ns}/statefulsets", workloadOf("StatefulSet",
			`"replicas":0,"serviceName":"s",`)),
		changed("of a StatefulSet", "/apis/apps/v1/${ns}/statefulsets/w/status",
			`{"status":{"replicas":1,"readyReplicas":2,
			"currentReplicas":2,"updatedReplicas":2,"availableReplicas":3}}`),
		created("ReplicaSet", "/apis/apps/v1/${ns}/replicasets", workloadOf("ReplicaSet", `"replicas":0,`)),
		changed("of a ReplicaSet", "/apis/apps/v1/${ns}/replicasets/w/status",
			`{"status":{"replicas":1,"readyReplicas":2,
			"availableReplicas":3}}`),
		changed("status by the main resource", webPath, `{"status":{"replicas":5},"metadata":{"labels":{"a":"b"}}}`)),
	script("status/applied by two", created("create", webServers, webServerBody),
		appliedStatus("first", "first", `{"type":"Ready","status":"True","reason":"R","message":"m",
			"lastTransitionTime":"2026-01-01T00:00:00Z"}`),
		appliedStatus("second", "second", `{"type":"Stalled","status":"True","reason":"R","message":"m",
			"lastTransitionTime":"2026-01-01T00:00:00Z"}`),
		appliedStatus("conflict", "third", `{"type":"Ready","status":"False","reason":"R","message":"m",
			"lastTransitionTime":"2026-01-01T00:00:00Z"}`),
		appliedStatus("first leaves", "first", ""), read("left", customA)),
	script("scale/of each workload", created("StatefulSet", "/apis/apps/v1/${ns}/statefulsets",
		workloadOf("StatefulSet", `"replicas":0,"serviceName":"s",`)), created("ReplicaSet",
		"/apis/apps/v1/${ns}/replicasets",
		workloadOf("ReplicaSet", `"replicas":0,`)),
		read("of the StatefulSet", "/apis/apps/v1/${ns}/statefulsets/w/scale"),
		changed("StatefulSet", "/apis/apps/v1/${ns}/statefulsets/w/scale", `{"spec":{"replicas":2}}`),
		replaced("ReplicaSet", "/apis/apps/v1/${ns}/replicasets/w/scale", appliedScale("w", `"spec":{"replicas":3}`)),
		read("the ReplicaSet", "/apis/apps/v1/${ns}/replicasets/w"),
		replaced("another name", "/apis/apps/v1/${ns}/replicasets/w/scale", appliedScale("x",
			`"spec":{"replicas":3}`)),
		replaced("without replicas", "/apis/apps/v1/${ns}/replicasets/w/scale", appliedScale("w", `"spec":{}`)),
		deleted("cannot be deleted", "/apis/apps/v1/${ns}/replicasets/w/scale", "")),
	script("scale/of a custom resource", capturing(created("create", webServers, webServerBody), "rv",
		"metadata.resourceVersion"), replaced("update", customA+"/scale", appliedScale("web",
		`"spec":{"replicas":3}`)),
		replaced("of an old version", customA+"/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{
			"name":"web","resourceVersion":"${rv}"},"spec":{"replicas":4}}`),
		edited("JSON patch", customA+"/scale", `[{"op":"replace","path":"/spec/replicas","value":5}]`),
		changed("its labels are not those of the object", customA+"/scale", `{"metadata":{"labels":{"a":"b"}}}`),
		changed("above the maximum", customA+"/scale", `{"spec":{"replicas":2147483648}}`), read("object", customA)),
}

func appliedStatus(step, manager, condition string) Step {
	return applied(step, customA+"/status?fieldManager="+manager, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer",
		"metadata":{"name":"web"},"status":{"conditions":[`+condition+`]}}`)
}
