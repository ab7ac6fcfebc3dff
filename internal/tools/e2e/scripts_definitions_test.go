package e2e

// definition is a CustomResourceDefinition of a group of the script's own.
func definition(plural, names, schema string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + plural +
		`.${NS}.example.com"},"spec":{"group":"${NS}.example.com","scope":"Namespaced","names":{"plural":"` + plural +
		`",` + names + `},"versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":
		".spec.color"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
		"color":{"type":"string"},` + schema + `}}}}}}]}}`
}

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	boxes       = "/apis/${NS}.example.com/v1/${ns}/boxes"
	boxHead     = `{"apiVersion":"${NS}.example.com/v1","kind":"Box","metadata":{"name":"`
)

// definitionScripts: names that two definitions want, and values that became invalid.
var definitionScripts = []Script{
	{Name: "names-of-definitions", Steps: []Step{
		created("first", definitions, definition("boxes", `"kind":"Box","shortNames":["bx","b"]`, `"n":{"type":"integer"}`)),
		{Name: "served", Path: boxes, Until: "BoxList"},
		created("second", definitions, definition("crates", `"kind":"Box","singular":"box","shortNames":["bx","b","c"]`,
			`"n":{"type":"integer"}`)),
		{Name: "its names are taken", Path: definitions + "/crates.${NS}.example.com", Until: "ListKindConflict"},
		{Name: "not served", Path: "/apis/${NS}.example.com/v1/${ns}/crates"},
		{Name: "delete the first", Method: "DELETE", Path: definitions + "/boxes.${NS}.example.com"},
		{Name: "the second is served", Path: "/apis/${NS}.example.com/v1/${ns}/crates", Until: "BoxList"},
		{Name: "and accepted", Path: definitions + "/crates.${NS}.example.com", Until: "NoConflicts"},
	}},
	{Name: "ratcheting", Steps: []Step{
		created("definition", definitions, definition("boxes", `"kind":"Box"`, looseBox)),
		{Name: "served", Path: boxes, Until: "BoxList"},
		created("object", boxes, boxHead+`a"},"spec":{"color":"red","n":7,"list":[{"k":"a","v":9},{"k":"b","v":1}],
			"plain":[9],"set":["x","x"],"choice":{"a":1,"b":1}}}`),
		changed("stricter", definitions+"/boxes.${NS}.example.com", definition("boxes", `"kind":"Box"`, strictBox)),
		{Name: "in force", Method: "POST", Path: boxes + "?dryRun=All", Body: boxHead + `b"},"spec":{"n":6}}`,
			Until: "less than or equal"},
		{Name: "selected", Path: boxes + "?fieldSelector=spec.color%3Dred", Until: "BoxList"},
		{Name: "not selected", Path: boxes + "?fieldSelector=spec.color%3Dblue", Until: "BoxList"},
		{Name: "no such field", Path: boxes + "?fieldSelector=spec.n%3D7"},
		changed("all is as it was", boxes+"/a", `{"metadata":{"labels":{"a":"b"}}}`),
		changed("a valid change", boxes+"/a", `{"spec":{"color":"blue"}}`),
		changed("still too large", boxes+"/a", `{"spec":{"n":8}}`),
		changed("items are told apart by their keys", boxes+"/a", `{"spec":{"list":[{"k":"b","v":2},{"k":"a","v":9}]}}`),
		changed("another item", boxes+"/a", `{"spec":{"list":[{"k":"b","v":9}]}}`),
		changed("items of other lists are not", boxes+"/a", `{"spec":{"plain":[9,1]}}`),
		changed("a set that was none", boxes+"/a", `{"spec":{"set":["x","x","y"]}}`),
		changed("a part of what is invalid", boxes+"/a", `{"spec":{"choice":{"c":1}}}`),
		changed("without it", boxes+"/a", `{"spec":{"choice":null}}`),
		changed("again", boxes+"/a", `{"spec":{"choice":{"a":1,"b":1}}}`),
	}},
}

// What an object of looseBox may have that one of strictBox may not.
const (
	looseBox = `"n":{"type":"integer"},"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[
		"k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer"}}}},
		"plain":{"type":"array","items":{"type":"integer"}},"set":{"type":"array","items":{"type":"string"}},
		"choice":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}}}`
	strictBox = `"n":{"type":"integer","maximum":5},"list":{"type":"array","x-kubernetes-list-type":"map",
		"x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},
		"v":{"type":"integer","maximum":5}}}},"plain":{"type":"array","items":{"type":"integer","maximum":5}},
		"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"choice":{"type":"object",
		"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},"maxProperties":1}`
)
