package e2e

import (
	"cmp"
	"strconv"
	"strings"
)

// scriptsOfLife are what is asked of each kind. Each script works on an object of its own, so that one that fails says
// nothing about the others.
var scriptsOfLife = []struct {
	name  string
	steps func(o lived) []Step
}{
	{"create", lived.created}, {"invalid", lived.refused}, {"update", lived.updated}, {"merge patch", lived.merged},
	{"JSON patch", lived.patched}, {"strategic patch", lived.patchedStrategically}, {"apply", lived.applied},
	{"dry run", lived.tried}, {"table", lived.shown}, {"subresources", lived.below}, {"watch", lived.watched},
	{"delete", lived.deleted},
}

// lived is the object of one of these scripts.
type lived struct {
	living
	only string // its name
	one  string // its path
}

// lives are the scripts of a kind, named KIND/SCRIPT, with the group where two have the kind.
func (k living) lives() (out []Script) {
	name := k.kind
	for _, other := range kindsWithLives {
		if other.kind == k.kind && other.path != k.path {
			name = k.kind + "." + strings.ReplaceAll(k.version(), "/", ".")
		}
	}
	for i, s := range scriptsOfLife {
		only := strings.ReplaceAll(cmp.Or(k.name, "${NS}"), "#", strconv.Itoa(i+1))
		out = append(out, Script{Name: name + "/" + s.name, Steps: s.steps(lived{k, only, k.path + "/" + only})})
	}
	return out
}

// object is the object with these members of its metadata, and these besides.
func (o lived) object(metadata, members string) string {
	return `{"apiVersion":"` + o.version() + `","kind":"` + o.kind + `","metadata":{` + metadata + `}` +
		strings.TrimSuffix(","+members, ",") + `}`
}

// named is the object as it is created, with these other members of its metadata.
func (o lived) named(metadata string) string { return o.object(`"name":"`+o.only+`"`+metadata, o.body) }

// with is the object as it is created with these other members of its metadata, after a merge patch.
func (o lived) with(metadata, members string) string {
	return encoded(merge(parsed(o.named(metadata)), parsed("{"+members+"}")))
}

// make are the steps that create the object.
func (o lived) make() []Step {
	return []Step{{Name: "create", Method: "POST", Path: o.path, Body: o.named("")}, {Name: "settled", Path: o.one,
		Until: o.settled, Capture: map[string]string{"made": "metadata.resourceVersion", "uid": "metadata.uid"}}}
}

func (o lived) patch(step, query, kind, body string) Step {
	return Step{Name: step, Method: "PATCH", Path: o.one + query, Type: kind, Body: body}
}

func (o lived) put(step, query, body string) Step {
	return Step{Name: step, Method: "PUT", Path: o.one + query, Body: body}
}

func (o lived) post(step, query, body string) Step {
	return Step{Name: step, Method: "POST", Path: o.path + query, Body: body}
}

func (o lived) created() []Step {
	steps := []Step{{Name: "not there", Path: o.one}}
	if o.name == "" {
		steps = append(steps, o.post("name to generate", "?dryRun=All", o.object(`"generateName":"generated-"`, o.body)))
	}
	return append(steps, append(o.make(),
		o.post("again", "", o.named("")),
		o.post("again, of a version", "", o.named(`,"resourceVersion":"${made}"`)),
		Step{Name: "in a list", Path: o.path + "?fieldSelector=metadata.name%3D" + o.only},
		Step{Name: "selected by label", Path: o.path + "?labelSelector=life%3Dnone&limit=1"},
		Step{Name: "selected by an unknown field", Path: o.path + "?fieldSelector=spec.none%3Dx"},
		o.post("without a name", "", o.object("", o.body)),
	)...)
}

func (o lived) refused() []Step {
	const dry = "?dryRun=All"
	return append([]Step{
		o.post("bad name", dry, o.object(`"name":"a/b"`, o.body)),
		o.post("bad label", dry, o.named(`,"labels":{"a b":"c","d":"?"}`)),
		o.post("bad annotation", dry, o.named(`,"annotations":{"a b":"c"}`)),
		o.post("bad owner", dry, o.named(`,"ownerReferences":[{"kind":"K","name":"n"}]`)),
		o.post("bad object", dry, o.with("", o.bad)),
		o.post("unknown field, strict", dry+"&fieldValidation=Strict", o.with("", `"typo":1`)),
		o.post("unknown field, with a warning", dry, o.with("", `"typo":1`)),
		o.post("unknown field, ignored", dry+"&fieldValidation=Ignore", o.with("", `"typo":1`)),
		o.post("twice, strict", dry+"&fieldValidation=Strict", o.object(`"name":"`+o.only+`"`, o.body+","+o.body)),
		o.post("labels of a wrong type", dry, o.named(`,"labels":["a"]`)),
		o.post("another kind", dry, strings.Replace(o.named(""), o.kind, "Boat", 1)),
		o.post("another version", dry, strings.Replace(o.named(""), o.version(), "boats.dev/v1", 1)),
		o.post("no object", dry, `[]`),
	}, append(o.make(),
		o.put("bad object by PUT", "", o.with(`,"resourceVersion":"${made}"`, o.bad)),
		o.patch("bad object by merge patch", "", mergePatch, "{"+o.bad+"}"),
		o.patch("bad object by strategic patch", "", strategicPatch, "{"+o.bad+"}"),
		o.patch("bad object by apply", "?fieldManager=m&force=true", applyPatch, o.with("", o.bad)),
		Step{Name: "untouched", Path: o.one},
	)...)
}

func (o lived) updated() []Step {
	const version = `,"resourceVersion":"${made}"`
	return append(o.make(),
		o.put("labels", "", o.named(version+`,"labels":{"u":"1"}`)),
		o.put("old version", "", o.named(version+`,"labels":{"u":"2"}`)),
		o.put("no version", "", o.named(`,"labels":{"u":"3"}`)),
		o.put("another uid", "", o.named(`,"uid":"11111111-2222-3333-4444-555555555555"`)),
		o.put("another name", "", strings.Replace(o.named(""), `"name":"`+o.only, `"name":"other`, 1)),
		Step{Name: "of nothing", Method: "PUT", Path: o.path + "/${NS}-none",
			Body: o.object(`"name":"${NS}-none"`+version, o.body)},
		Step{Name: "read", Path: o.one, Capture: map[string]string{"made": "metadata.resourceVersion"}},
		o.put("change", "?fieldManager=changer", o.with(version, o.change)),
		Step{Name: "read what changed", Path: o.one, Capture: map[string]string{"made": "metadata.resourceVersion"}},
		o.put("the same again", "?fieldManager=changer", o.with(version, o.change)),
	)
}

func (o lived) merged() []Step {
	return append(o.make(),
		o.patch("label", "", mergePatch, `{"metadata":{"labels":{"m":"1","n":"1"}}}`),
		o.patch("nothing", "", mergePatch, `{}`),
		o.patch("null removes", "", mergePatch, `{"metadata":{"labels":{"m":null}}}`),
		o.patch("change", "?fieldManager=changer", mergePatch, `{`+o.change+`}`),
		o.patch("the same again", "?fieldManager=changer", mergePatch, `{`+o.change+`}`),
		o.patch("old version", "", mergePatch, `{"metadata":{"resourceVersion":"${made}"}}`),
		o.patch("another name", "", mergePatch, `{"metadata":{"name":"other"}}`),
		o.patch("unknown field, strict", "?fieldValidation=Strict", mergePatch, `{"typo":1}`),
		Step{Name: "of nothing", Method: "PATCH", Path: o.path + "/${NS}-none", Type: mergePatch, Body: `{"metadata":{}}`},
	)
}

func (o lived) patched() []Step {
	return append(o.make(),
		o.patch("add", "", jsonPatch, `[{"op":"add","path":"/metadata/annotations","value":{"j":"1","a/b":"2"}}]`),
		o.patch("test and replace", "", jsonPatch, `[{"op":"test","path":"/metadata/annotations/j","value":"1"},
			{"op":"replace","path":"/metadata/annotations/j","value":"2"}]`),
		o.patch("failed test", "", jsonPatch, `[{"op":"test","path":"/metadata/annotations/j","value":"1"}]`),
		o.patch("copy, move and remove", "", jsonPatch, `[{"op":"copy","from":"/metadata/annotations","path":
			"/metadata/labels"},{"op":"move","from":"/metadata/labels/j","path":"/metadata/labels/k"},
			{"op":"remove","path":"/metadata/annotations/a~1b"}]`),
		o.patch("remove nothing", "", jsonPatch, `[{"op":"remove","path":"/metadata/annotations/none"}]`),
		o.patch("no operations", "", jsonPatch, `[]`),
		Step{Name: "of nothing", Method: "PATCH", Path: o.path + "/${NS}-none", Type: jsonPatch, Body: `[]`},
	)
}

func (o lived) patchedStrategically() []Step {
	return append(o.make(),
		o.patch("label", "", strategicPatch, `{"metadata":{"labels":{"s":"1","t":"1"}}}`),
		o.patch("replace", "", strategicPatch, `{"metadata":{"labels":{"u":"1","$patch":"replace"}}}`),
		o.patch("finalizers are merged", "", strategicPatch, `{"metadata":{"finalizers":["a.b/c"]}}`),
		o.patch("another finalizer", "", strategicPatch, `{"metadata":{"finalizers":["a.b/d"]}}`),
		o.patch("without one", "", strategicPatch, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.b/c"]}}`),
		o.patch("change", "?fieldManager=changer", strategicPatch, `{`+o.change+`}`),
		o.patch("the same again", "?fieldManager=changer", strategicPatch, `{`+o.change+`}`),
		Step{Name: "of nothing", Method: "PATCH", Path: o.path + "/${NS}-none", Type: strategicPatch, Body: `{}`},
	)
}

func (o lived) applied() []Step {
	labels := func(labels string) string { return o.object(`"name":"`+o.only+`","labels":{`+labels+`}`, "") }
	return []Step{
		o.patch("without a manager", "", applyPatch, o.named("")),
		o.patch("create", "?fieldManager=first", applyPatch, o.named("")),
		{Name: "settled", Path: o.one, Until: o.settled},
		o.patch("the same again", "?fieldManager=first", applyPatch, o.named("")),
		o.patch("by another", "?fieldManager=other", applyPatch, labels(`"m":"1","a":"1"`)),
		o.patch("less", "?fieldManager=other", applyPatch, labels(`"m":"1"`)),
		o.patch("conflict", "?fieldManager=third", applyPatch, labels(`"m":"2"`)),
		o.patch("forced", "?fieldManager=third&force=true", applyPatch, labels(`"m":"2"`)),
		o.patch("change", "?fieldManager=first&force=true", applyPatch, o.with("", o.change)),
		o.patch("an update takes it", "?fieldManager=updater", mergePatch, `{"metadata":{"labels":{"m":"3"}}}`),
		o.patch("conflict with the update", "?fieldManager=third", applyPatch, labels(`"m":"2"`)),
		o.patch("of nobody's fields", "?fieldManager=third", applyPatch, o.object(`"name":"`+o.only+`"`, "")),
	}
}

func (o lived) tried() []Step {
	const dry = "?dryRun=All"
	return append([]Step{
		o.post("create", dry, o.named("")),
		o.patch("apply", dry+"&fieldManager=m", applyPatch, o.named("")),
		{Name: "not stored", Path: o.one},
	}, append(o.make(),
		o.post("create again", dry, o.named("")),
		o.put("update", dry, o.with(`,"resourceVersion":"${made}","labels":{"d":"1"}`, o.change)),
		o.patch("merge patch", dry, mergePatch, `{"metadata":{"labels":{"d":"1"}}}`),
		o.patch("JSON patch", dry, jsonPatch, `[{"op":"add","path":"/metadata/labels","value":{"d":"1"}}]`),
		o.patch("strategic patch", dry, strategicPatch, `{"metadata":{"labels":{"d":"1"}}}`),
		o.patch("apply", dry+"&fieldManager=m", applyPatch, o.object(`"name":"`+o.only+`","labels":{"d":"1"}`, "")),
		Step{Name: "delete", Method: "DELETE", Path: o.one + dry},
		Step{Name: "delete all", Method: "DELETE", Path: o.path + dry + "&fieldSelector=metadata.name%3D" + o.only},
		o.post("unknown", "?dryRun=Some", o.named("")),
		Step{Name: "untouched", Path: o.one},
	)...)
}

func (o lived) shown() []Step {
	selected := "?fieldSelector=metadata.name%3D" + o.only
	return append([]Step{{Name: "empty", Path: o.path + selected, Accept: asTable}}, append(o.make(),
		Step{Name: "list", Path: o.path + selected, Accept: asTable},
		Step{Name: "one", Path: o.one, Accept: asTable},
		Step{Name: "with objects", Path: o.path + selected + "&includeObject=Object", Accept: asTable},
		Step{Name: "without objects", Path: o.one + "?includeObject=None", Accept: asTable},
		Step{Name: "metadata of one", Path: o.one, Accept: asMetadata},
		Step{Name: "metadata of all", Path: o.path + selected, Accept: asMetadatas},
		Step{Name: "of nothing", Path: o.path + "/${NS}-none", Accept: asTable},
	)...)
}

func (o lived) below() []Step {
	const labels = `{"metadata":{"labels":{"s":"1"},"annotations":{"s":"1"},"finalizers":["a.b/c"]}}`
	below := func(step, method, path, kind, body string) Step {
		return Step{Name: step, Method: method, Path: o.one + path, Type: kind, Body: body}
	}
	return append(o.make(),
		below("status", "GET", "/status", "", ""),
		below("labels by status", "PATCH", "/status?fieldManager=m", mergePatch, labels),
		below("change by status", "PATCH", "/status?fieldManager=m", mergePatch, `{`+o.change+`}`),
		below("JSON patch of status", "PATCH", "/status", jsonPatch, `[]`),
		below("update of status", "PUT", "/status?fieldManager=m", "", o.with(`,"labels":{"s":"2"}`, o.change)),
		below("apply of status", "PATCH", "/status?fieldManager=applier", applyPatch,
			o.object(`"name":"`+o.only+`","annotations":{"s":"1"}`, "")),
		below("delete of status", "DELETE", "/status", "", ""),
		below("scale", "GET", "/scale", "", ""),
		below("unknown", "GET", "/${NS}-none", "", ""),
		below("POST of one", "POST", "", "", o.named("")),
		Step{Name: "PATCH of all", Method: "PATCH", Path: o.path, Type: mergePatch, Body: labels},
		Step{Name: "PUT of all", Method: "PUT", Path: o.path, Body: o.named("")},
		Step{Name: "left", Path: o.one},
	)
}

func (o lived) watched() []Step {
	watch := o.path + "?watch=1&timeoutSeconds=60&fieldSelector=metadata.name%3D" + o.only + "&resourceVersion="
	return append([]Step{{Name: "before", Path: o.path + "?fieldSelector=metadata.name%3Dnone",
		Capture: map[string]string{"rv": "metadata.resourceVersion"}}}, append(o.make(),
		o.patch("hold", "", mergePatch, `{"metadata":{"labels":{"w":"1"},"finalizers":["a.b/c"]}}`),
		o.patch("relabel", "", mergePatch, `{"metadata":{"labels":{"w":"2"}}}`),
		Step{Name: "delete", Method: "DELETE", Path: o.one},
		o.patch("let go", "", mergePatch, `{"metadata":{"finalizers":null}}`),
		Step{Name: "all", Path: watch + "${rv}", Through: o.end()},
		Step{Name: "from the middle", Path: watch + "${made}", Through: o.end()},
		Step{Name: "with a selector", Path: watch + "${rv}&labelSelector=w%3D1", Through: "DELETED"},
		Step{Name: "as a table", Path: watch + "${rv}", Accept: asTable, Events: 1},
		Step{Name: "as metadata", Path: watch + "${rv}", Accept: asMetadata, Events: 2},
	)...)
}

// end is the type of the last event.
func (o lived) end() string {
	if o.kind == "Namespace" {
		return "MODIFIED" // nobody empties them on these servers
	}
	return "DELETED"
}

func (o lived) deleted() (steps []Step) {
	gone := ""
	if o.kind == "CustomResourceDefinition" {
		gone = "not found" // whatever the policy: it waits for its objects only
	}
	remove := func(step, query, body string) Step {
		return Step{Name: step, Method: "DELETE", Path: o.one + query, Body: body}
	}
	steps = append(append(steps, remove("nothing", "", "")), o.make()...)
	steps = append(steps, remove("of another uid", "", `{"preconditions":{"uid":"none"}}`),
		remove("of another version", "", `{"preconditions":{"resourceVersion":"1"}}`),
		remove("of an unknown policy", "?propagationPolicy=Some", ""),
		remove("of that uid and version", "", `{"preconditions":{"uid":"${uid}","resourceVersion":"${made}"}}`),
		Step{Name: "gone", Path: o.one, Until: gone})
	if o.kind == "CustomResourceDefinition" {
		return steps // one that is made again at once can keep a real server busy for minutes when it is deleted again
	}
	for _, policy := range []string{"Foreground", "Orphan", "Background"} {
		steps = append(steps, o.post("create for "+policy, "", o.named("")),
			Step{Name: "settled for " + policy, Path: o.one, Until: o.settled},
			remove(policy, "?propagationPolicy="+policy, ""),
			Step{Name: "left by " + policy, Path: o.one, Until: gone},
			o.patch("let go by "+policy, "", mergePatch, `{"metadata":{"finalizers":null}}`))
	}
	return append(steps, o.post("create for all", "", o.named("")),
		Step{Name: "settled for all", Path: o.one, Until: o.settled},
		Step{Name: "all", Method: "DELETE", Path: o.path + "?fieldSelector=metadata.name%3D" + o.only},
		Step{Name: "none left", Path: o.one, Until: gone})
}
