package e2e

// customScript is a script about boxes, whose spec has this schema besides a color.
func customScript(name, schema string, steps ...Step) Script {
	return script("custom/"+name, append([]Step{created("define", definitions+"?fieldManager=m",
		definition("boxes", `"kind":"Box","shortNames":["bx"],"categories":["all"]`, schema)),
		{Name: "served", Path: boxes, Until: "BoxList"},
		{Name: "established", Path: definitions + "/boxes.${NS}.example.com",
			Until: "InitialNamesAccepted"}}, steps...)...)
}

// box is a Box of that name with this spec.
func box(step, name, spec string) Step { return created(step, boxes, boxOf(name, spec)) }

func boxOf(name, spec string) string { return boxHead + name + `"},"spec":{` + spec + `}}` }

// customScripts: what definitions make of objects.
var customScripts = []Script{
	customScript("defaults", `"n":{"type":"integer","default":3},"o":{"type":"object","default":{},"properties":{
		"a":{"type":"string","default":"x"},"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"boolean",
		"default":true}}}}}},"z":{"type":"string","nullable":true,"default":"y"}`,
		box("nothing", "a", ""), box("some", "b", `"n":0,"o":{"b":[{},{"c":false}]}`), box("null", "c",
			`"n":null,"o":null,"z":null`),
		changed("null in a patch", boxes+"/b", `{"spec":{"n":null,"o":{"a":null}}}`),
		applied("applied", boxes+"/d?fieldManager=m", boxOf("d", `"color":"red"`)),
		replaced("forgotten in an update", boxes+"/b", boxOf("b", ""))),
	customScript("pruning",
		`"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{
		"type":"object","properties":{"a":{"type":"integer"}}}}},"list":{"type":"array","items":{"type":"object",
		"properties":{"a":{"type":"integer"}}}},"map":{"type":"object","additionalProperties":{"type":"object","properties":{
		"a":{"type":"integer"}}}}`,
		box("unknown everywhere", "a",
			`"x":1,"free":{"x":{"y":1},"known":{"a":1,"b":2}},"list":[{"a":1,"b":2}],"map":{"k":{
			"a":1,"b":2}}`),
		created("strict", boxes+"?fieldValidation=Strict", boxOf("b", `"x":1,"list":[{"b":2}],"map":{"k":{"b":2}}`)),
		created("ignored", boxes+"?fieldValidation=Ignore", boxOf("b", `"x":1`)),
		changed("patched", boxes+"/a", `{"spec":{"x":2},"other":3}`), read("read", boxes+"/a")),
	customScript("numbers and texts", `"port":{"x-kubernetes-int-or-string":true},"n":{"type":"integer","minimum":1,
		"maximum":9,"multipleOf":2},"f":{"type":"number","exclusiveMinimum":true,"minimum":0},"s":{"type":"string",
		"minLength":2,"maxLength":4,"pattern":"^[a-z]+$"},"e":{"type":"string","enum":["a","b"]}`,
		box("a number", "a", `"port":80,"n":2,"f":0.5,"s":"ab","e":"a"`), box("a text", "b", `"port":"http"`),
		box("neither", "c", `"port":true`), box("a fraction", "c", `"port":1.5`),
		box("out of range", "c", `"n":11,"f":0`), box("no multiple", "c", `"n":3`), box("too short", "c", `"s":"a"`),
		box("too long", "c", `"s":"abcde"`), box("pattern", "c", `"s":"ABC"`), box("enum", "c", `"e":"c"`),
		box("a number for a text", "c", `"s":1`),
		box("a whole fraction", "c", `"n":2.0`)),
	customScript("formats", `"t":{"type":"string","format":"date-time"},"d":{"type":"string","format":"date"},
		"u":{"type":"string","format":"uuid"},"i":{"type":"string","format":"ipv4"},"b":{"type":"string","format":"byte"},
		"n":{"type":"integer","format":"int32"}`,
		box("good", "a",
			`"t":"2026-01-01T00:00:00Z","d":"2026-01-01","u":"11111111-2222-3333-4444-555555555555","i":"192.0.2.1",
			"b":"YQ==","n":1`), box("time", "b", `"t":"yesterday"`), box("date", "b", `"d":"2026-13-01"`),
		box("uuid", "b", `"u":"x"`), box("address", "b", `"i":"300.0.0.1"`), box("base64", "b", `"b":"!"`),
		box("too large for 32 bits", "b", `"n":2147483648`)),
	customScript("null",
		`"a":{"type":"string","nullable":true},"b":{"type":"string"},"c":{"type":"object","nullable":true,
		"required":["d"],"properties":{"d":{"type":"string"}}}`,
		box("allowed", "a", `"a":null,"c":null`), box("not allowed", "b", `"b":null`), box("required", "c", `"c":{}`),
		box("required, null", "c", `"c":{"d":null}`)),
	customScript("lists",
		`"m":{"type":"array","maxItems":2,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[
		"k","p"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"p":{"type":"integer",
		"default":1},"v":{"type":"string"}}}},"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
		"a":{"type":"array","minItems":1,"uniqueItems":false,"items":{"type":"integer"}}`,
		box("good", "a", `"m":[{"k":"a"},{"k":"a","p":2}],"s":["x","y"],"a":[1,1]`), box("key twice", "b",
			`"m":[{"k":"a"},{"k":"a"}]`),
		box("set", "b", `"s":["x","x"]`), box("no key", "b", `"m":[{"v":"a"}]`), box("too many", "b",
			`"m":[{"k":"a"},{"k":"b"},{"k":"c"}]`),
		box("too few", "b", `"a":[]`),
		applied("by another", boxes+"/a?fieldManager=m", boxOf("a", `"m":[{"k":"a","p":2,"v":"x"}],"s":["z"]`)),
		applied("less", boxes+"/a?fieldManager=m", boxOf("a", `"s":["z"]`)),
		merged("no strategic patch", boxes+"/a", `{"spec":{"s":["w"]}}`)),
	customScript("embedded objects", `"pod":{"type":"object","x-kubernetes-embedded-resource":true,
		"x-kubernetes-preserve-unknown-fields":true}`,
		box("good", "a",
			`"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"}},"spec":{"x":1}}`),
		box("no kind", "b", `"pod":{"apiVersion":"v1","metadata":{}}`),
		box("unknown metadata", "c", `"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","typo":1}}`)),
	customScript("choices", `"one":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},
		"oneOf":[{"required":["a"]},{"required":["b"]}]},"any":{"type":"object","properties":{"a":{"type":"string"},
		"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]},"not":{"type":"object","properties":{
		"a":{"type":"string"}},"not":{"required":["a"]}},"max":{"type":"object","maxProperties":1,"minProperties":1,
		"additionalProperties":{"type":"string"}}`,
		box("good", "a", `"one":{"a":"x"},"any":{"a":"x","b":"y"},"not":{},"max":{"a":"b"}`),
		box("both", "b", `"one":{"a":"x","b":"y"}`), box("none of one", "b", `"one":{}`), box("none of any", "b",
			`"any":{}`),
		box("not", "b", `"not":{"a":"x"}`), box("too many", "b", `"max":{"a":"b","c":"d"}`), box("too few", "b",
			`"max":{}`)),
	customScript("selectable fields", `"n":{"type":"integer"}`, capturing(read("before", boxes), "rv",
		"metadata.resourceVersion"),
		box("red", "a", `"color":"red"`), box("blue", "b", `"color":"blue"`), box("none", "c", ``),
		changed("from red to blue", boxes+"/a", `{"spec":{"color":"blue"}}`), changed("and back", boxes+"/a",
			`{"spec":{"color":"red"}}`), deleted("delete", boxes+"/a", ""),
		read("blue ones", boxes+"?fieldSelector=spec.color%3Dblue"),
		read("not blue", boxes+"?fieldSelector=spec.color!%3Dblue"),
		read("two fields", boxes+"?fieldSelector=spec.color%3Dblue%2Cmetadata.name%3Db"),
		read("another field", boxes+"?fieldSelector=spec.n%3D1"),
		Step{Name: "red ones come and go", Path: boxes +
			"?watch=1&resourceVersion=${rv}&fieldSelector=spec.color%3Dred",
			Events: 4},
		Step{Name: "delete the blue ones", Method: "DELETE", Path: boxes + "?fieldSelector=spec.color%3Dblue"},
		read("left", boxes)),
	customScript("finalizers of the last objects", `"n":{"type":"integer"}`, created("held", boxes, boxHead+
		`a","finalizers":["a.b/c"]},"spec":{}}`), deleted("the definition", definitions+"/boxes.${NS}.example.com",
		""),
		Step{Name: "waits", Path: definitions + "/boxes.${NS}.example.com", Until: "InstanceDeletionInProgress"},
		Step{Name: "nothing new", Method: "POST", Path: boxes, Body: boxOf("b", ""), Until: "terminating"},
		Step{Name: "the object goes", Path: boxes + "/a", Until: "deletionTimestamp"},
		changed("let go", boxes+"/a", `{"metadata":{"finalizers":null}}`),
		Step{Name: "gone", Path: definitions + "/boxes.${NS}.example.com", Until: "not found"},
		Step{Name: "served no more", Path: boxes, Until: "404"}),
	script("custom/cluster-scoped", created("define", definitions, plainDefinition("crates", "Crate", "Cluster", "",
		"")),
		Step{Name: "served", Path: "/apis/${NS}.example.com/v1/crates", Until: "CrateList"},
		created("create", "/apis/${NS}.example.com/v1/crates", `{"apiVersion":"${NS}.example.com/v1","kind":"Crate",
			"metadata":{"name":"a"}}`),
		created("in a namespace", "/apis/${NS}.example.com/v1/${ns}/crates",
			`{"apiVersion":"${NS}.example.com/v1","kind":"Crate",
			"metadata":{"name":"b"}}`),
		created("of a namespace", "/apis/${NS}.example.com/v1/crates",
			`{"apiVersion":"${NS}.example.com/v1","kind":"Crate",
			"metadata":{"name":"b","namespace":"${NS}"}}`),
		read("no status", "/apis/${NS}.example.com/v1/crates/a/status"), read("no scale",
			"/apis/${NS}.example.com/v1/crates/a/scale"),
		read("one", "/apis/${NS}.example.com/v1/crates/a")),
	script("custom/without a status", created("define", definitions, plainDefinition("crates", "Crate", "Namespaced",
		"",
		`"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)),
		Step{Name: "served", Path: "/apis/${NS}.example.com/v1/${ns}/crates", Until: "CrateList"},
		created("create with a status", "/apis/${NS}.example.com/v1/${ns}/crates",
			`{"apiVersion":"${NS}.example.com/v1",
			"kind":"Crate","metadata":{"name":"a"},"status":{"ready":true}}`),
		changed("status counts for the generation", "/apis/${NS}.example.com/v1/${ns}/crates/a",
			`{"status":{"ready":false}}`),
		changed("labels do not", "/apis/${NS}.example.com/v1/${ns}/crates/a", `{"metadata":{"labels":{"a":"b"}}}`)),
	script("custom/columns", created("define", definitions, plainDefinition("crates", "Crate", "Namespaced",
		`"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"},{"name":"Tags","type":"string",
		"jsonPath":".spec.tags[*]"},{"name":"First","type":"string","jsonPath":".spec.tags[0]","priority":1},{"name":"When",
		"type":"date","jsonPath":".spec.when"},{"name":"On","type":"boolean","jsonPath":".spec.on","description":"whether"}],`,
		`"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)),
		Step{Name: "served", Path: "/apis/${NS}.example.com/v1/${ns}/crates", Until: "CrateList"},
		created("all", "/apis/${NS}.example.com/v1/${ns}/crates",
			`{"apiVersion":"${NS}.example.com/v1","kind":"Crate","metadata":{
			"name":"a"},"spec":{"size":3,"tags":["x","y"],"when":"2026-01-01T00:00:00Z","on":false}}`),
		created("none", "/apis/${NS}.example.com/v1/${ns}/crates",
			`{"apiVersion":"${NS}.example.com/v1","kind":"Crate","metadata":{
			"name":"b"}}`),
		created("wrong types", "/apis/${NS}.example.com/v1/${ns}/crates",
			`{"apiVersion":"${NS}.example.com/v1","kind":"Crate",
			"metadata":{"name":"c"},"spec":{"size":"big","tags":"x","when":"never","on":"yes"}}`),
		Step{Name: "table", Path: "/apis/${NS}.example.com/v1/${ns}/crates", Accept: asTable}),
}

// plainDefinition is a definition with these other members of its version and these properties.
func plainDefinition(plural, kind, scope, version, properties string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + plural +
		`.${NS}.example.com"},"spec":{"group":"${NS}.example.com","scope":"` + scope + `","names":{"plural":"` + plural +
		`","kind":"` + kind + `"},"versions":[{"name":"v1","served":true,"storage":true,` + version +
		`"schema":{"openAPIV3Schema":{"type":"object","properties":{` + properties + `}}}}]}}`
}
