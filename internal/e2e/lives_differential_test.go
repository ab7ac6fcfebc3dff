package e2e

import (
	"cmp"
	"strings"
	"testing"
)

// life is the script of what happens to objects of a kind: created, shown, changed in each way, deleted in each way,
// and all of that seen by a watch.
func life(k living) Script {
	path, head := k.path, `{"apiVersion":"`+k.version+`","kind":"`+k.kind+`","metadata":{"name":"`
	script := strings.ToLower("life-" + strings.NewReplacer(".k8s.io", "", "/", "-", ".", "-").Replace(k.version) +
		"-" + k.kind)
	only := cmp.Or(k.name, script)
	body := func(name, metadata string) string { return head + name + `"` + metadata + `},` + k.body + `}` }
	create := func(name string) []Step {
		return []Step{{Name: name, Method: "POST", Path: path, Body: body(only, "")}, {Name: name + ": settled",
			Path: path + "/" + only, Until: k.settled, Capture: map[string]string{"made": "metadata.resourceVersion"}}}
	}
	change := func(step, query, kind, body string) Step {
		return Step{Name: step, Method: "PATCH", Path: path + "/" + only + query, Type: kind, Body: body}
	}
	steps := []Step{
		{Name: "before", Path: path + "?fieldSelector=metadata.name%3Dnone",
			Capture: map[string]string{"rv": "metadata.resourceVersion"}},
		{Name: "create by a dry run", Method: "POST", Path: path + "?dryRun=All", Body: body(only, "")},
		{Name: "not stored", Path: path + "/" + only},
	}
	steps = append(append(steps, create("create")...), []Step{
		{Name: "again", Method: "POST", Path: path, Body: body(only, "")},
		{Name: "table", Path: path + "?fieldSelector=metadata.name%3D" + only, Accept: asTable},
		{Name: "update by a dry run", Method: "PUT", Path: path + "/" + only + "?dryRun=All",
			Body: body(only, `,"resourceVersion":"${made}","labels":{"u":"1"}`)},
		{Name: "update", Method: "PUT", Path: path + "/" + only,
			Body: body(only, `,"resourceVersion":"${made}","labels":{"u":"1"}`)},
		{Name: "update of an old version", Method: "PUT", Path: path + "/" + only,
			Body: body(only, `,"resourceVersion":"${made}","labels":{"u":"2"}`)},
		change("JSON patch", "", "application/json-patch+json", `[{"op":"add","path":"/metadata/annotations","value":
			{"j":"1"}},{"op":"test","path":"/metadata/labels/u","value":"1"}]`),
		change("merge patch", "", mergePatch, `{"metadata":{"labels":{"u":null,"m":"1"}}}`),
		change("strategic patch", "", strategicPatch, `{"metadata":{"annotations":{"s":"1","$patch":"replace"}}}`),
		change("apply", "?fieldManager=other", applyPatch, head+only+`","labels":{"m":"1","a":"1"}}}`),
		change("apply less", "?fieldManager=other", applyPatch, head+only+`","labels":{"m":"1"}}}`),
		change("apply what another has", "?fieldManager=third", applyPatch, head+only+`","labels":{"m":"2"}}}`),
		change("patch by a dry run", "?dryRun=All", mergePatch, `{"metadata":{"labels":{"d":"1"}}}`),
		change("patch that changes nothing", "", mergePatch, `{"metadata":{"labels":{"m":"1"}}}`),
		{Name: "delete by a dry run", Method: "DELETE", Path: path + "/" + only + "?dryRun=All"},
	}...)
	gone := ""
	if k.kind == "CustomResourceDefinition" {
		gone = "not found" // whatever the policy: it waits for its objects only
	}
	for _, policy := range []string{"Foreground", "Orphan", "Background"} {
		steps = append(steps, Step{Name: "delete " + policy, Method: "DELETE", Path: path + "/" + only +
			"?propagationPolicy=" + policy}, Step{Name: "left by " + policy, Path: path + "/" + only, Until: gone},
			change("let go by "+policy, "", mergePatch, `{"metadata":{"finalizers":null}}`))
		steps = append(steps, create("create after "+policy)...)
	}
	return Script{Name: script, Steps: append(steps,
		Step{Name: "delete", Method: "DELETE", Path: path + "/" + only},
		Step{Name: "gone", Path: path + "/" + only, Until: gone},
		Step{Name: "watch", ToEnd: true, Path: path +
			"?watch=1&timeoutSeconds=1&resourceVersion=${rv}&fieldSelector=metadata.name%3D" + only})}
}

// What happens to an object of any kind is the same on the embedded server as on a real one, step by step.
func TestEachKindLivesOnTheEmbeddedServerAsOnTheRealOne(t *testing.T) {
	// Without what controllers have to undo, or write at a time of their own.
	cluster := ownCluster(t, "--disable-admission-plugins", "StorageObjectInUseProtection,TaintNodesByCondition",
		"--enable-priority-and-fairness=false")
	plain, withCEL := startFake(t), startWithCEL(t)
	for _, api := range []*API{cluster.Admin, plain, withCEL} {
		installForScripts(t, api)
	}
	for _, kind := range kindsWithLives {
		script, fake := life(kind), plain
		if strings.Contains(kind.kind, "AdmissionPolicy") {
			fake = withCEL
		}
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			runDifferential(t, script, cluster.Admin, fake, allowedInLives())
		})
	}
}

func allowedInLives() []*Allowance {
	return []*Allowance{
		{Script: "*", Step: "table", Path: "*columnDefinitions.*description",
			Why: "The embedded server has the first sentence of a description."},
		{Script: "life-apiextensions-v1-customresourcedefinition", Step: "*", Path: "Body.metadata.resourceVersion",
			Why: "The real server fails at times to empty a definition that is a second old, and tries again."},
		{Script: "life-apiextensions-v1-customresourcedefinition", Step: "watch", Path: "Events", Why: "As above."},
		{Script: "life-apps-v1-daemonset", Step: "table", Path: "*metadata.annotations",
			Why: "The real server adds this annotation when it converts the object to its version: rows have none."},
		{Script: "life-networking-v1-ipaddress", Step: "table", Path: "*cells",
			Why: "The real server has a cell more than columns."},
		{Script: "life-apps-v1-controllerrevision", Step: "*", Path: "*f:data.f:a",
			Why: "The real server takes these data as one value."},
	}
}
