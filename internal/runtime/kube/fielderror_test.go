package kube

import "testing"

func TestWhatAServerSaysAboutFieldsIsSaidInPlainWords(t *testing.T) {
	const deployment = `Deployment in version "v1" cannot be handled as a Deployment: `
	for _, c := range []struct {
		name, message, body, want string
		code                      int
		causes                    []StatusCause
	}{
		{"an unknown field", "failed to create typed patch object (default/t; skiff.dev/v1alpha1, " +
			"Kind=WebServer): .spec.replica: field not declared in schema", `{}`,
			"spec.replica: unknown field, did you mean replicas?", 500, nil},
		{"two of them, one in an item", "failed to create typed patch object (/a; apps/v1, Kind=Deployment): " +
			"errors:\n  .metadata.lables: field not declared in schema\n  .spec.template.spec.containers" +
			"[name=\"c\"].imagePullPolice: field not declared in schema", `{}`,
			"metadata.lables: unknown field, did you mean labels?; spec.template.spec.containers[c]." +
				"imagePullPolice: unknown field, did you mean imagePullPolicy?", 500, nil},
		{"a type of an apply", "failed to create typed patch object (/a; apps/v1, Kind=Deployment): .spec.replicas: " +
			"expected numeric (int or float), got string", `{"spec":{"replicas":"two"}}`,
			`spec.replicas: want a number, got "two"`, 500, nil},
		{"strict decoding", deployment +
			`strict decoding error: unknown field "spec.template.spec.containers[0].portz", duplicate field "spec.x"`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"web"}]}}}}`,
			"spec.template.spec.containers[web].portz: unknown field, did you mean ports?; spec.x: is there twice",
			400, nil},
		{"a type, with its place", deployment + "json: cannot unmarshal string into Go struct field" +
			" ContainerPort.spec." +
			"template.spec.containers.ports.containerPort of type int32", `{"spec":{"template":{"spec":{"containers":[
			{"name":"side","ports":[{"containerPort":1}]},
			{"name":"webserver","ports":[{"containerPort":80},{"containerPort":"http"}]}]}}}}`,
			`spec.template.spec.containers[webserver].ports[1].containerPort: want a number, got "http"`, 400, nil},
		{"a type, without what was sent", deployment + "json: cannot unmarshal string into Go struct field " +
			"DeploymentSpec.spec.replicas of type int32", "", "spec.replicas: want a number, got text", 400, nil},
		{"what may be a secret", deployment + "json: cannot unmarshal number into Go struct field" +
			" EnvVar.spec.template." +
			"spec.containers.env.value of type string",
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"PIN","value":1234}]}]}}}}`,
			"spec.template.spec.containers[c].env[PIN].value: want text, got a number", 400, nil},
		{"a custom resource's type", `WebServer.skiff.dev "t4" is invalid: [...]`, `{"spec":{"replicas":"three"}}`,
			`spec.replicas: want a number, got "three"; spec.port: Invalid value: 0: should be at least 1`, 422,
			[]StatusCause{{Field: "spec.replicas", Message: `Invalid value: "string": spec.replicas in body must be of ` +
				`type integer: "string"`}, {Field: ".spec.replicas", Message: "Invalid value: 0: .spec.replicas accessor " +
				"error: three is of the type string, expected int64"},
				{Field: "spec.port", Message: "Invalid value: 0: should be at least 1"}}},
		{"an image", "", `{"spec":{"image":"NGINX latest"}}`, "spec.image: want an image reference, " +
			`[HOST[:PORT]/]NAME[:TAG][@DIGEST], got "NGINX latest"`, 422, []StatusCause{{Field: "spec.image",
			Message: `Invalid value: "NGINX latest": spec.image in body should match '^x$'`}}},
		{"a rule of a field stays as it is", "spec.port: Invalid value: 0: should be at least 1", `{}`,
			"spec.port: Invalid value: 0: should be at least 1", 422,
			[]StatusCause{{Field: "spec.port", Message: "Invalid value: 0: should be at least 1"}}},
		{"anything else", "the server is on fire", `{}`, "the server is on fire", 500, nil},
	} {
		s := &Status{Code: c.code, Message: c.message, Details: StatusDetails{Causes: c.causes}}
		s.fields = fieldErrors(s, []byte(c.body))
		if got := s.Error(); got != c.want {
			t.Errorf("%s:\n    %s\nwant %s", c.name, got, c.want)
		}
		if !IsRefused(s) && c.name != "anything else" {
			t.Errorf("%s is not taken for a refusal", c.name)
		}
	}
}
