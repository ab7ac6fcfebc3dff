package e2e

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// kindScripts asks the same of each kind of testdata/kinds; the sections of a file are variants of its object. Where a
// controller of the real cluster would write to the object meanwhile, the kind has no change, and all is a dry run.
func kindScripts(t testing.TB) []Script {
	return readKinds(t, "kinds", func(variants []txtar.File, v Vars) []Step {
		path, dry := v["path"], v["path"]+"?dryRun=All"
		body := func(name, rest string) string {
			return `{"apiVersion":"` + versionOf(path) + `","kind":"` + v["kind"] + `","metadata":{"name":"` + name + `"},` +
				rest + `}`
		}
		steps := []Step{{Name: "created by a dry run", Method: "POST", Path: dry, Body: body("dry", v["body"])},
			{Name: "unknown field", Method: "POST", Path: dry + "&fieldValidation=Strict",
				Body: body("typo", or(v["typo"], v["body"]+`,"typo":1`))},
			{Name: "bad name", Method: "POST", Path: dry, Body: body("A_B", v["body"])},
			{Name: "applied by a dry run", Method: "PATCH", Type: applyPatch,
				Path: path + "/applied?fieldManager=skiff&dryRun=All", Body: body("applied", v["body"])}}
		for _, f := range variants {
			steps = append(steps, Step{Name: f.Name, Method: "POST", Path: dry,
				Body: body("variant", v.expand(string(f.Data)))})
		}
		if strings.Contains(path, "${ns}") { // a real server has objects of some other kinds from the beginning
			steps = append(steps, Step{Name: "empty list", Path: path},
				Step{Name: "empty table", Path: path, Accept: v["table"]})
		}
		if v["change"] == "" {
			return steps
		}
		patch := func(name, body string) Step {
			return Step{Name: name, Method: "PATCH", Type: mergePatch, Path: path + "/one", Body: body}
		}
		return append(steps, Step{Name: "create", Method: "POST", Path: path, Body: body("one", v["body"])},
			Step{Name: "table", Path: path + "/one", Accept: v["table"]},
			patch("change", v["change"]), patch("no change", v["change"]),
			patch("refused", or(v["refused"], `{"metadata":{"labels":{"a":"not/allowed/"}}}`)),
			Step{Name: "status", Path: path + "/one/status"},
			Step{Name: "delete by a dry run", Method: "DELETE", Path: path + "/one?dryRun=All"},
			Step{Name: "delete", Method: "DELETE", Path: path + "/one", Body: `{"propagationPolicy":"Background"}`})
	})
}

// refusedScripts are about what is refused of the kinds of testdata/refused: each section is a merge patch of base. An
// update is tried as a PUT and as a PATCH. Only base is stored; all else is a dry run. A file with template also has
// the creates of that file, as templates of pods.
func refusedScripts(t testing.TB) []Script {
	scripts := readKinds(t, "refused", func(changes []txtar.File, v Vars) (steps []Step) {
		const dry = "?dryRun=All"
		merged := func(change string) string {
			text := must(mergedText(v["base"], change))(t)
			return text
		}
		create := func(f txtar.File, prefix, format string) {
			if name, ok := strings.CutPrefix(f.Name, "create: "); ok {
				steps = append(steps, Step{Name: prefix + name, Method: "POST", Path: v["path"] + dry,
					Body: merged(strings.Replace(format, "%", string(f.Data), 1))})
			}
		}
		for _, f := range changes {
			create(f, "", "%")
		}
		if v["template"] != "" {
			_, more, _ := testdata(t, "refused/"+v["template"]+".txtar", nil)
			for _, f := range more {
				create(f, "template: ", `{"spec":{"template":%}}`)
			}
		}
		stored := ""
		for _, f := range changes {
			name, ok := strings.CutPrefix(f.Name, "update: ")
			if !ok {
				continue
			}
			if stored == "" {
				stored = v["path"] + "/" + Object(parsed(t, v["base"])).Str("metadata", "name")
				steps = append(steps, Step{Name: "create", Method: "POST", Path: v["path"], Body: v["base"]})
			}
			steps = append(steps, Step{Name: name + ", by PATCH", Method: "PATCH", Type: mergePatch,
				Path: stored + dry, Body: string(f.Data)},
				Step{Name: name + ", by PUT", Method: "PUT", Path: stored + dry, Body: merged(string(f.Data))})
		}
		return steps
	})
	for i := range scripts {
		scripts[i].Name = "refused-" + scripts[i].Name
	}
	return scripts
}

// versionOf is the apiVersion of the objects at a path.
func versionOf(path string) string {
	parts := strings.Split(path, "/")
	if parts[1] == "api" {
		return parts[2]
	}
	return parts[2] + "/" + parts[3]
}
