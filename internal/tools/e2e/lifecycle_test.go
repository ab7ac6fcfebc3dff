package e2e

import (
	"cmp"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// lifecycle is a kind whose objects can be created, changed and deleted.
type lifecycle struct {
	kind, path string
	scripts    []Script
}

// lifecycleKinds reads testdata/lifecycle: kinds.txtar has the kinds, and each other file is a script that is run for
// each of them, on an object of its own, so that one that fails says nothing about the others. Of a kind it has
//
//	body     what an object has besides apiVersion, kind and metadata
//	change   a merge patch that a client would send, whether the kind takes it or not
//	bad      a merge patch that makes it an object that is refused
//	name     of the object, where the kind asks for a certain one; # is the number of the script
//	settled  in its status when the server's own controllers have written what they write for a new object
func lifecycleKinds(t *testing.T) (kinds []lifecycle) {
	t.Helper()
	_, sections, shared := testdata(t, "lifecycle/kinds.txtar", nil)
	files := []string{"create", "invalid", "update", "merge-patch", "JSON-patch", "strategic-patch", "apply",
		"dry-run", "table", "subresources", "watch", "delete"}
	if all, err := filepath.Glob("testdata/lifecycle/*.txtar"); err != nil || len(all) != len(files)+1 {
		t.Fatalf("%d files in testdata/lifecycle, want those of %v and the kinds: %v", len(all), files, err)
	}
	for _, f := range sections {
		kind, path, _ := strings.Cut(shared.expand(f.Name), " ")
		name := kind
		for _, other := range sections {
			if strings.HasPrefix(other.Name, kind+" ") && other.Name != f.Name {
				name = kind + "." + strings.ReplaceAll(versionOf(path), "/", ".")
			}
		}
		k := lifecycle{kind: kind, path: path}
		for i, file := range files {
			vars := Vars{"settled": "", "gone": "", "end": "DELETED"}
			maps.Copy(vars, fieldsOf(string(f.Data), shared))
			only := strings.ReplaceAll(cmp.Or(vars["name"], "${NS}"), "#", strconv.Itoa(i+1))
			vars["kind"], vars["version"], vars["path"], vars["only"], vars["one"] = kind, versionOf(path), path, only,
				path+"/"+only
			vars["type"] = `"apiVersion":"` + vars["version"] + `","kind":"` + kind + `"`
			vars["named"] = `{` + vars["type"] + `,"metadata":{"name":"` + only + `"},` + vars["body"] + `}`
			vars["versioned"] = strings.Replace(vars["named"], `"},`, `","resourceVersion":"${made}"},`, 1)
			switch kind {
			case "Namespace":
				vars["end"] = "MODIFIED" // no controller empties them on these servers
			case "CustomResourceDefinition":
				vars["gone"] = "not found" // after any policy: it waits for its objects only
			}
			s := readScript(t, "lifecycle/"+file+".txtar", vars)
			s.Name = name + "/" + file
			k.scripts = append(k.scripts, s)
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// What happens to an object of any kind is the same on the embedded server as on a real one, script by script.
func TestEachKindHasTheLifecycleOfTheRealServer(t *testing.T) {
	long(t)
	// Without what controllers have to undo, or write at a time of their own.
	cluster := ownCluster(t, "--disable-admission-plugins", "TaintNodesByCondition",
		"--enable-priority-and-fairness=false")
	plain, withCEL := startFake(t), startWithCEL(t)
	for _, api := range []*API{cluster.Admin, plain, withCEL} {
		installForScripts(t, api)
	}
	for _, kind := range lifecycleKinds(t) {
		fake := plain
		if strings.Contains(kind.kind, "AdmissionPolicy") {
			fake = withCEL
		}
		for _, script := range kind.scripts {
			t.Run(script.Name, func(t *testing.T) {
				t.Parallel()
				runDifferential(t, script, cluster.Admin, fake, allowedInLifecycles())
			})
		}
	}
}

// Each kind that the embedded server lets one create has scripts of its own, those of life or of reviews.
func TestEachServedKindHasScripts(t *testing.T) {
	without := map[string]string{
		"apiregistration.k8s.io/v1 apiservices": "there are no aggregated API servers: each is refused",
		"v1 bindings":                           "they are not stored: the script bindings-and-components has them",
	}
	with := map[string]int{}
	for _, kind := range lifecycleKinds(t) {
		with[resourceOf(kind.path)] += len(kind.scripts)
	}
	for _, kind := range reviewKinds {
		with[resourceOf(kind.path)]++
	}
	seen := 0
	for name, what := range discovered(t, startFake(t)) {
		_, resource, _ := strings.Cut(name, " ")
		if strings.Contains(resource, "/") || !strings.Contains(what, "create") {
			continue // a subresource, or nothing to create
		}
		if seen++; (with[name] == 0) != (without[name] != "") {
			t.Errorf("%s has %d scripts; the reason why it has none: %q", name, with[name], without[name])
		}
	}
	if seen < 67 { // of a server of v1.36
		t.Errorf("%d kinds can be created, want 67", seen)
	}
}

// resourceOf is the version and the resource of a path, as discovered names them.
func resourceOf(path string) string {
	parts := strings.Split(strings.ReplaceAll(path, "/${ns}", ""), "/")
	return strings.Join(parts[2:len(parts)-1], "/") + " " + parts[len(parts)-1]
}

func allowedInLifecycles() []*Allowance {
	return []*Allowance{
		{Script: "*", Step: "*", Path: "*columnDefinitions.*description",
			Why: "The embedded server has the first sentence of a description."},
		{Script: "*/invalid", Step: "another *", Path: "Body.message",
			Why: "The real server names a line of its source."},
		{Script: "CSIDriver/*", Step: "*", Path: "*metadata.generation",
			Why: "The real server counts from the first change on, by an oversight."},
		{Script: "CustomResourceDefinition/*", Step: "*", Path: "Body.metadata.resourceVersion",
			Why: "The real server fails at times to empty a definition that is a second old, and tries again."},
		{Script: "CustomResourceDefinition/watch", Step: "*", Path: "Events*|Body.status*|*managedFields*",
			Why: "As above."},
		{Script: "CustomResourceDefinition/delete|Namespace/delete|Event.events.k8s.io.v1/delete", Step: "of another*",
			Path: "Body.message|Body.details*", Why: "These have words of their own."},
		{Script: "DaemonSet/*", Step: "*", Path: "*metadata*annotations*|*f:metadata",
			Why: "The real server adds this annotation when it converts the object to its version: rows have none."},
		{Script: "IPAddress/*", Step: "*", Path: "*cells", Why: "The real server has a cell more than columns."},
		{Script: "Job/apply|PersistentVolumeClaim/apply|DaemonSet/update", Step: "*",
			Path: "Body.metadata.resourceVersion", Why: "The real server writes again if the same is applied again."},
		{Script: "Job/create|ResourceSlice/create", Step: "selected by an unknown field", Path: "Body.message",
			Why: "They have words of their own."},
		{Script: "LimitRange/create", Step: "without a name", Path: "*", Why: "The real server names it by a UUID."},
		{Script: "Job/invalid", Step: "bad name", Path: "Body.*",
			Why: "The real server looks for the label in fewer places."},
		{Script: "Node/invalid", Step: "bad object*", Path: "Body.*",
			Why: "The real server says metadata instead of spec."},
		{Script: "Namespace/invalid|PersistentVolume/invalid", Step: "bad object by *",
			Path: "Body.details.causes", Why: "The real server validates updates several times."},
		{Script: "CSINode/invalid", Step: "bad object by *", Path: "Body.*",
			Why: "The real server also says that drivers stay."},
		{Script: "Secret/invalid|ServiceAccount/invalid", Step: "bad object by strategic patch",
			Path: "Body.*message", Why: "The words of the decoder."},
		{Script: "Secret/invalid|ServiceAccount/invalid|WebServer/invalid", Step: "bad object by apply",
			Path: "*", Why: "The real server answers 500 to an applied value of a wrong type, the embedded one 4xx."},
		{Script: "PersistentVolume/subresources", Step: "*", Path: "Body.status.lastPhaseTransitionTime",
			Why: "The real server sets it again when a client forgets the status."},
		{Script: "CustomResourceDefinition/update|Endpoints/update|Ingress/update|Node/update|" +
			"ReplicationController/update|Service/update", Step: "another uid", Path: "Body.message",
			Why: "Their keys in etcd are not those of the resource."},
		{Script: "ControllerRevision/*", Step: "*", Path: "*f:data.f:a",
			Why: "The real server takes these data as one value."},
	}
}
