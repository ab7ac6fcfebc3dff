package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// deployment returns one with a container that asks for so much CPU.
func deployment(name, cpu string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name +
		`"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
"spec":{"containers":[{"name":"c","image":"x:1","resources":{"requests":{"cpu":` + cpu + `,"memory":"1.5Gi"}}}]}}}}`
}

// Rules: FS-04, FS-19
func TestQuantitiesAreStoredInOneFormSoThatAnotherIsNoChange(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		apply := func(code int, manager, cpu string) response {
			return w.must(code, "PATCH", deployments+"/d?fieldManager="+manager, deployment("d", cpu),
				"Content-Type", string(kube.ApplyPatch))
		}
		a := apply(201, "skiff", `"0.5"`)
		if !strings.Contains(a.raw, `"requests":{"cpu":"500m","memory":"1536Mi"}`) {
			t.Fatalf("stored as %s", a.raw)
		}
		time.Sleep(2 * time.Second) // so that a new time in managedFields would show
		for _, same := range []response{
			apply(200, "skiff", `"0.5"`), apply(200, "skiff", `0.5`), apply(200, "skiff", `"500m"`),
			w.must(200, "PUT", deployments+"/d", strings.Replace(a.raw, `"500m"`, `"0.5"`, 1)),
			w.must(200, "PATCH", deployments+"/d",
				`{"spec":{"template":{"spec":{"containers":[{"name":"c",
				"resources":{"requests":{"cpu":"0.500"}}}]}}}}`,
				"Content-Type", string(kube.StrategicMergePatch)),
		} {
			if same.raw != a.raw {
				t.Errorf("changed by another form of the same:\n%s\n%s", same.raw, a.raw)
			}
		}
		// The merge compares what was sent with what is stored, before it is put into its form: so it is a conflict on
		// the real server.
		if c := apply(409, "rival",
			`"0.5"`); c.at("message") != "Apply failed with 2 conflicts: conflicts with \"skiff\":\n"+
			"- .spec.template.spec.containers[name=\"c\"].resources.requests.cpu\n- "+
			".spec.template.spec.containers[name=\"c\"].resources.requests.memory" {
			t.Error(c.raw)
		}
	})
}

// Rules: FS-17
func TestEachInvalidFieldOfAServiceIsReported(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		for body, want := range map[string]string{
			`{"metadata":{"name":"s"},"spec":{"ports":[{"port":0}]}}`: `Service "s" is invalid: ` +
				`[spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive, ` +
				`spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive]`,
			`{"metadata":{"name":"s"},"spec":{"ports":[{"port":80,"targetPort":"-80"}]}}`: `Service "s" is invalid: ` +
				`[spec.ports[0].targetPort: Invalid value: "-80": must contain at least one letter (a-z), ` +
				`spec.ports[0].targetPort: Invalid value: "-80": must not begin or end with a hyphen]`,
		} {
			if a := w.must(422, "POST", services, body); a.at("message") != want {
				t.Errorf("%s\nwant %s", a.at("message"), want)
			}
		}
		a := w.must(201, "POST", services, `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80,"targetPort":0}]}}`)
		if !strings.Contains(a.raw, `"targetPort":80`) {
			t.Errorf("no default: %s", a.raw)
		}
	})
}

// Rules: FS-21
func TestUnknownFieldsOfBuiltinKindsArePrunedReportedOrRefused(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		typo := strings.Replace(deployment("d", "1"), `"spec":{"selector"`,
			`"spec":{"replica":3,"replicas":2,"replicas":2,"selector"`, 1)
		const complaint = `duplicate field "spec.replicas", unknown field "spec.replica"`
		a := w.must(400, "POST", deployments+"?fieldValidation=Strict", typo)
		if want := `Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: ` +
			complaint; a.at("message") != want {
			t.Errorf("%s\nwant %s", a.at("message"), want)
		}
		a = w.must(201, "POST", deployments, typo)
		if got := strings.Join(a.header.Values("Warning"),
			" "); got != `299 - "duplicate field \"spec.replicas\"" 299 - "unknown field \"spec.replica\""` ||
			strings.Contains(a.raw, `"replica":`) {
			t.Errorf("warning %s, stored %s", got, a.raw)
		}
		for contentType, body := range map[kube.PatchType]string{
			kube.MergePatch: `{"spec":{"replica":4}}`, kube.StrategicMergePatch: `{"spec":{"replica":4}}`,
			kube.JSONPatch: `[{"op":"add","path":"/spec/replica","value":4}]`,
		} {
			refused := w.must(422, "PATCH", deployments+"/d?fieldValidation=Strict", body,
				"Content-Type", string(contentType))
			if !strings.HasSuffix(fmt.Sprint(refused.at("message")),
				`: strict decoding error: unknown field "spec.replica"`) {
				t.Errorf("%s: %s", contentType, refused.raw)
			}
			b := w.must(200, "PATCH", deployments+"/d?fieldValidation=Ignore", body,
				"Content-Type", string(contentType))
			if b.header.Get("Warning") != "" || b.at("metadata.resourceVersion") != a.at("metadata.resourceVersion") {
				t.Errorf("%s: warning %q, %s", contentType, b.header.Get("Warning"), b.raw)
			}
		}
		w.must(400, "PUT", deployments+"/d?fieldValidation=Strict", typo)
		if a = w.must(400, "POST", deployments, strings.ReplaceAll(typo, `"replicas":2`,
			`"replicas":"two"`)); !strings.Contains(a.raw,
			"Go struct field DeploymentSpec.spec.replicas of type int32") {
			t.Error(a.raw)
		}
	})
}

// Rules: FS-19
func TestAnApplyOfAnUndeclaredFieldIsRefused(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		a := w.must(500, "PATCH", deployments+"/d?fieldManager=m",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replica":3}}`,
			"Content-Type", string(kube.ApplyPatch))
		if a.at("message") != "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.replica: "+
			"field not declared in schema" || a.at("reason") != nil {
			t.Error(a.raw)
		}
	})
}

// Rules: FD-22
func TestDeprecatedKindsComeWithAWarning(t *testing.T) {
	withWidgets(t, func(w *world) {
		for path, want := range map[string]string{
			"/api/v1/namespaces/default/endpoints": `299 - "v1 Endpoints is deprecated in v1.33+; use ` +
				`discovery.k8s.io/v1 EndpointSlice"`,
			widgetPath: "",
		} {
			if got := w.must(200, "GET", path, "").header.Get("Warning"); got != want {
				t.Errorf("%s: warning %s, want %s", path, got, want)
			}
		}
		w.must(200, "PATCH", crdPath+"/widgets.example.com",
			`[{"op":"add","path":"/spec/versions/0/deprecated","value":true}]`, "Content-Type", string(kube.JSONPatch))
		synctest.Wait()
		if got := w.must(200, "GET", widgetPath, "").header.Get(
			"Warning"); got != `299 - "example.com/v1 Widget is deprecated"` {
			t.Errorf("warning %s", got)
		}
	})
}

// Rules: FS-19
func TestAnAppliedEmptyValueHasAnOwnerEvenIfItIsOmitted(t *testing.T) {
	withWidgets(t, func(w *world) {
		for path, body := range map[string]string{
			configMaps + "/a": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{}}}`,
			widgetPath + "/a": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a",` +
				`"annotations":{}},"spec":{"image":"x"}}`,
		} {
			a := w.must(201, "PATCH", path+"?fieldManager=m", body, "Content-Type", string(kube.ApplyPatch))
			if a.at("metadata.annotations") != nil || !strings.Contains(a.raw, `"f:metadata":{"f:annotations":{}}`) {
				t.Error(a.raw)
			}
			time.Sleep(2 * time.Second)
			if b := w.must(200, "PATCH", path+"?fieldManager=m", body, "Content-Type",
				string(kube.ApplyPatch)); b.raw != a.raw {
				t.Errorf("the same again:\n%s\n%s", a.raw, b.raw)
			}
		}
	})
}
