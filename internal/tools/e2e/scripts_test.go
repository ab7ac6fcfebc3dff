package e2e

import "slices"

// scripts are the requests that skiff makes, with their usual and their unusual answers. Each works in a namespace of
// its own.
var scripts = slices.Concat(readScripts, writeScripts, applyScripts, objectScripts, kubectlScripts, lifecycleScripts,
	kindScripts, moreKindScripts, refusedScripts, limitScripts, definitionScripts, ruleScripts, operatorScripts,
	sharedScripts, customScripts, toolScripts, []Script{oddScript})

// Where the objects of the scripts live.
const (
	configMaps  = "/api/v1/${ns}/configmaps"
	services    = "/api/v1/${ns}/services"
	deployments = "/apis/apps/v1/${ns}/deployments"
	webServers  = "/apis/skiff.dev/v1alpha1/${ns}/webservers"
)

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// deploymentBody is a Deployment that no controller would roll: paused, without pods.
const deploymentBody = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"}},"spec":{"replicas":0,
	"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
	"spec":{"containers":[{"name":"web","image":"nginx:1.23.1","ports":[{"name":"http","containerPort":80}],"resources":{"requests":{"cpu":"0.5"}}}]}}}}`

const serviceBody = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service"},"spec":{"type":"NodePort",
	"selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":"http"}]}}`

const webServerBody = `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"spec":{"image":"nginx:1.23.1","replicas":2}}`

// configMap is a ConfigMap of that name with one label and one value.
func configMap(name, label, value string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","labels":{"l":"` + label +
		`"}},"data":{"k":"` + value + `"}}`
}

// create is the step that posts a ConfigMap.
func create(name, label string) Step {
	return Step{Name: "create " + name, Method: "POST", Path: configMaps, Body: configMap(name, label, "1")}
}

// readScripts: lists, watches and what is wrong with their parameters.
var readScripts = []Script{
	{Name: "list", Steps: []Step{
		{Name: "empty", Path: configMaps},
		{Name: "empty, custom", Path: webServers},
		create("a", "x"), create("b", "y"), create("c", "x"), create("d", "y"), create("e", "x"),
		{Name: "all", Path: configMaps, Capture: map[string]string{"rv": "metadata.resourceVersion"}},
		{Name: "page 1", Path: configMaps + "?limit=2", Capture: map[string]string{"token": "metadata.continue"}},
		create("b2", "x"),
		{Name: "page 2 is of the old snapshot", Path: configMaps + "?limit=2&continue=${token}",
			Capture: map[string]string{"token2": "metadata.continue"}},
		{Name: "page 3", Path: configMaps + "?limit=2&continue=${token2}"},
		{Name: "continue with a version", Path: configMaps + "?limit=2&continue=${token}&resourceVersion=${rv}"},
		{Name: "continue with a match", Path: configMaps + "?limit=2&continue=${token}&resourceVersionMatch=Exact"},
		{Name: "broken token", Path: configMaps + "?limit=2&continue=nonsense"},
		{Name: "selector", Path: configMaps + "?labelSelector=l%3Dx"},
		{Name: "selector in", Path: configMaps + "?labelSelector=l+in+%28y%2Cz%29%2C%21other"},
		{Name: "selector paged", Path: configMaps + "?labelSelector=l%3Dx&limit=2"},
		{Name: "broken selector", Path: configMaps + "?labelSelector=l%3D%3D%3Dx"},
		{Name: "field selector", Path: configMaps + "?fieldSelector=metadata.name%3Dc"},
		{Name: "field selector of an unknown field", Path: configMaps + "?fieldSelector=spec.foo%3Dc"},
		{Name: "field selector of an unknown field, custom", Path: webServers + "?fieldSelector=spec.foo%3Dc"},
		{Name: "version 0", Path: configMaps + "?resourceVersion=0&fieldSelector=metadata.name%3Da"},
		{Name: "not older than", Path: configMaps + "?resourceVersion=${rv}&resourceVersionMatch=NotOlderThan"},
		{Name: "exact", Path: configMaps + "?resourceVersion=${rv}&resourceVersionMatch=Exact"},
		{Name: "exact 0", Path: configMaps + "?resourceVersion=0&resourceVersionMatch=Exact"},
		{Name: "match without version", Path: configMaps + "?resourceVersionMatch=Exact"},
		{Name: "unknown match", Path: configMaps + "?resourceVersion=${rv}&resourceVersionMatch=Newest"},
		{Name: "version is no number", Path: configMaps + "?resourceVersion=abc"},
		{Name: "version of the far future", Path: configMaps + "?resourceVersion=999999999"},
		{Name: "initial events on a list", Path: configMaps + "?sendInitialEvents=true"},
		{Name: "one object", Path: configMaps + "/c"},
		{Name: "one object that is not there", Path: configMaps + "/zzz"},
		{Name: "one custom object that is not there", Path: webServers + "/zzz"},
		{Name: "kind that is not there", Path: "/apis/skiff.dev/v1alpha1/${ns}/boats"},
		{Name: "group that is not there", Path: "/apis/nowhere.dev/v1/${ns}/boats"},
		{Name: "all namespaces, selected", Path: "/api/v1/configmaps?labelSelector=l%3Dx&fieldSelector=" +
			"metadata.namespace%3D${NS}"},
	}},
	{Name: "list-custom", Steps: []Step{
		{Name: "create", Method: "POST", Path: webServers, Body: webServerBody},
		{Name: "items carry kind and version", Path: webServers},
		{Name: "page", Path: webServers + "?limit=1"},
	}},
	{Name: "watch", Steps: []Step{
		{Name: "before", Path: configMaps, Capture: map[string]string{"rv": "metadata.resourceVersion"}},
		create("a", "x"), create("b", "y"),
		{Name: "change", Method: "PATCH", Type: mergePatch, Path: configMaps + "/a", Body: `{"data":{"k":"2"}}`,
			Capture: map[string]string{"changed": "metadata.resourceVersion"}},
		{Name: "relabel", Method: "PATCH", Type: mergePatch, Path: configMaps + "/a",
			Body: `{"metadata":{"labels":{"l":"y"}}}`},
		{Name: "delete", Method: "DELETE", Path: configMaps + "/b"},
		{Name: "all events", Path: configMaps + "?watch=true&resourceVersion=${rv}", Events: 5},
		{Name: "resume in the middle", Path: configMaps + "?watch=1&resourceVersion=${changed}", Events: 2},
		{Name: "with a selector, leaving it is a DELETED", Path: configMaps +
			"?watch=true&labelSelector=l%3Dx&resourceVersion=${rv}", Events: 3},
		{Name: "with a selector, entering it is an ADDED", Path: configMaps +
			"?watch=true&labelSelector=l%3Dy&resourceVersion=${rv}", Events: 3},
		{Name: "one object", Path: configMaps + "?watch=true&fieldSelector=metadata.name%3Db&resourceVersion=${rv}",
			Events: 2},
		{Name: "too old", Path: webServers + "?watch=true&resourceVersion=1", Events: 1},
		{Name: "version is no number", Path: configMaps + "?watch=true&resourceVersion=abc"},
		{Name: "the server ends it", Path: configMaps + "?watch=true&resourceVersion=${rv}&timeoutSeconds=1",
			ToEnd: true},
		{Name: "from now, without a version", Path: configMaps + "?watch=true", Events: 1},
		{Name: "unknown kind", Path: "/apis/skiff.dev/v1alpha1/${ns}/boats?watch=true"},
	}},
	{Name: "watch-list", Steps: []Step{
		{Name: "empty", Path: configMaps +
			"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" +
			"allowWatchBookmarks=true&labelSelector=l", Events: 1},
		create("a", "x"), create("b", "y"), create("c", "x"),
		{Name: "all", Path: configMaps +
			"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" +
			"allowWatchBookmarks=true&labelSelector=l&timeoutSeconds=300", Events: 4},
		{Name: "selected", Path: configMaps +
			"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" +
			"allowWatchBookmarks=true&labelSelector=l%3Dx", Events: 3},
		{Name: "create custom", Method: "POST", Path: webServers, Body: webServerBody},
		{Name: "custom", Path: webServers +
			"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", Events: 2},
		{Name: "without match", Path: configMaps + "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"},
		{Name: "with Exact", Path: configMaps +
			"?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=5"},
		{Name: "match without initial events", Path: configMaps + "?watch=1&resourceVersionMatch=NotOlderThan"},
	}},
	{Name: "bookmarks", Alone: true, Steps: []Step{
		// The real server plans the last bookmark for two seconds before the end when it sends the first one, which it
		// does within 1.25 seconds, on a jittered tick. Six seconds leave room for both; with three it is a matter of
		// chance.
		{Name: "bookmark before the server ends it", Path: configMaps +
			"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" +
			"allowWatchBookmarks=true&labelSelector=l%3Dz&timeoutSeconds=6", ToEnd: true},
	}},
	{Name: "kinds", Steps: []Step{
		{Name: "kinds of the group", Path: "/apis/skiff.dev/v1alpha1"},
		{Name: "the group", Path: "/apis/skiff.dev"},
		{Name: "unknown group", Path: "/apis/nowhere.dev/v1"},
		{Name: "unknown path", Path: "/nowhere"},
	}},
}
