package fakeapi

import (
	"strings"
	"testing"
	"time"

	"skiff/internal/kube"
)

// deployment returns one with a container that asks for so much CPU.
func deployment(name, cpu string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name + `"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
"spec":{"containers":[{"name":"c","image":"x:1","resources":{"requests":{"cpu":` + cpu + `,"memory":"1.5Gi"}}}]}}}}`
}

// Rules: FS-04, FS-19
func TestQuantitiesAreStoredInOneFormSoThatAnotherIsNoChange(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		apply := func(code int, manager, cpu string) answer {
			return w.must(code, "PATCH", deployments+"/d?fieldManager="+manager, deployment("d", cpu), "Content-Type", string(kube.ApplyPatch))
		}
		a := apply(201, "skiff", `"0.5"`)
		if !strings.Contains(a.raw, `"requests":{"cpu":"500m","memory":"1536Mi"}`) {
			t.Fatalf("stored as %s", a.raw)
		}
		time.Sleep(2 * time.Second) // so that a new time in managedFields would show
		for _, same := range []answer{
			apply(200, "skiff", `"0.5"`), apply(200, "skiff", `0.5`), apply(200, "skiff", `"500m"`),
			w.must(200, "PUT", deployments+"/d", strings.Replace(a.raw, `"500m"`, `"0.5"`, 1)),
			w.must(200, "PATCH", deployments+"/d", `{"spec":{"template":{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"0.500"}}}]}}}}`,
				"Content-Type", string(kube.StrategicMergePatch)),
		} {
			if same.raw != a.raw {
				t.Errorf("changed by another form of the same:\n%s\n%s", same.raw, a.raw)
			}
		}
		// The merge compares what was sent with what is stored, before it is put into its form: so it is a conflict on the real server.
		if c := apply(409, "rival", `"0.5"`); c.at("message") != "Apply failed with 2 conflicts: conflicts with \"skiff\":\n"+
			"- .spec.template.spec.containers[name=\"c\"].resources.requests.cpu\n- .spec.template.spec.containers[name=\"c\"].resources.requests.memory" {
			t.Error(c.raw)
		}
	})
}

// Rules: FS-17
func TestAServiceIsToldOfEachFieldThatIsWrong(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		for body, want := range map[string]string{
			`{"metadata":{"name":"s"},"spec":{"ports":[{"port":0}]}}`: `Service "s" is invalid: [spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive, ` +
				`spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive]`,
			`{"metadata":{"name":"s"},"spec":{"ports":[{"port":80,"targetPort":"-80"}]}}`: `Service "s" is invalid: [spec.ports[0].targetPort: Invalid value: "-80": must contain at least one letter (a-z), ` +
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
