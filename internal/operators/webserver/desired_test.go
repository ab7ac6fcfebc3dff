package webserver

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// decode reads a WebServer as a server sends it.
func decode(t *testing.T, text string) *WebServer {
	t.Helper()
	ws := &WebServer{}
	if err := kube.Unmarshal([]byte(text), ws); err != nil {
		t.Fatal(err)
	}
	return ws
}

const identity = `"metadata":{"name":"web","namespace":"shop","uid":"4c1a","generation":1}`

func TestDesiredState(t *testing.T) {
	for name, spec := range map[string]string{
		"article": `{"image":"nginx:1.23.1","replicas":3,"nodePort":30010}`,
		"least":   `{"image":"nginx"}`,
		"fields": `{"image":"nginx","replicas":0,"port":8080,"env":[{"name":"B","value":"2"},{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}],
			"resources":{"requests":{"cpu":"0.5","memory":"64Mi"},"limits":{"cpu":1}}}`,
		"overlay": `{"image":"nginx","env":[{"name":"A","value":"1"}],"template":{
			"metadata":{"annotations":{"example.com/scrape":"true"},"labels":{"tier":"front","app.kubernetes.io/name":"webserver"}},
			"spec":{"nodeSelector":{"disk":"ssd"},"volumes":[{"name":"tmp","emptyDir":{}}],"containers":[
				{"name":"webserver","env":[{"name":"B","value":"2"}],"readinessProbe":{"httpGet":{"path":"/","port":"http"}},
				 "volumeMounts":[{"name":"tmp","mountPath":"/tmp"}]},
				{"name":"log","image":"busybox"}]}}}`,
		"clusterip": `{"image":"nginx","serviceType":"ClusterIP"}`,
		"nulls":     `{"image":"nginx","env":null,"resources":null,"template":null}`,
	} {
		t.Run(name, func(t *testing.T) { checkGolden(t, name, decode(t, `{`+identity+`,"spec":`+spec+`}`)) })
	}
}

func TestKeptNodePortIsAskedForOnceAndNotDeclared(t *testing.T) {
	ws := decode(t, `{`+identity+`,"spec":{"image":"nginx"},"status":{"nodePort":31234}}`)
	checkGolden(t, "kept", ws)
}

func checkGolden(t *testing.T, name string, ws *WebServer) {
	t.Helper()
	c, err := definition.Declare(ws)
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]any{"deployment": c[0].Body, "service": c[1].Body}
	if c[1].Create != nil {
		bodies["service at its birth"] = c[1].Create
	}
	operatortest.Golden(t, name, bodies)
}

func TestInvalidSpecNamesTheField(t *testing.T) {
	for spec, field := range map[string]string{
		`{"image":""}`:                                   "spec.image",
		`{}`:                                             "spec.image",
		`{"image":"nginx","replicas":-1}`:                "spec.replicas",
		`{"image":"nginx","port":0}`:                     "spec.port",
		`{"image":"nginx","port":65536}`:                 "spec.port",
		`{"image":"nginx","nodePort":80}`:                "spec.nodePort",
		`{"image":"nginx","nodePort":32768}`:             "spec.nodePort",
		`{"image":"nginx","template":[]}`:                "spec.template",
		`{"image":"nginx","serviceType":"ExternalName"}`: "spec.serviceType",
		`{"image":"nginx","serviceType":"ClusterIP","nodePort":30010}`:                             "spec.nodePort",
		`{"image":"nginx","template":{"metadata":{"labels":{"app.kubernetes.io/name":"mine"}}}}`:   "spec.template.metadata.labels",
		`{"image":"nginx","template":{"metadata":{"labels":{"app.kubernetes.io/instance":null}}}}`: "spec.template.metadata.labels",
		`{"image":"nginx","template":{"metadata":{"$patch":"replace","labels":{"a":"b"}}}}`:        "spec.template.metadata",
		`{"image":"nginx","template":{"spec":{"containers":[{}]}}}`: "spec.template.spec.containers[0] has no name; " +
			"the server's own container is named webserver",
		`{"image":"nginx","template":{"spec":{"containers":[{"name":"webserver","ports":[{}]}]}}}`: "spec.template.spec.containers[0].ports[0] " +
			"has no containerPort; by it an item is merged with the one that is there",
		`{"image":"nginx","template":{"spec":{"containers":"none"}}}`:    "",
		`{"image":"nginx","template":{"metadata":{"labels":{"a":"b"}}}}`: "",
	} {
		_, err := desired(decode(t, `{`+identity+`,"spec":`+spec+`}`))
		if field == "" {
			if err != nil {
				t.Errorf("%s: %v; what the server can check better is left to it", spec, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), field+":") && err.Error() != field {
			t.Errorf("%s: got error %v, want one about %s", spec, err, field)
		}
	}
}

func TestRawFieldThatIsNoGoodJSONIsNamed(t *testing.T) {
	for field, spec := range map[string]Spec{
		"spec.template": {Image: "nginx", Template: kube.Raw(`{"spec":{"a":1,"a":2}}`)},
		"spec.env":      {Image: "nginx", Env: kube.Raw(`[{"name":"A","name":"B"}]`)},
	} {
		ws := decode(t, `{`+identity+`}`)
		ws.Spec = spec
		if _, err := desired(ws); err == nil || !strings.HasPrefix(err.Error(), field+":") && err.Error() != field {
			t.Errorf("got error %v, want one about %s", err, field)
		}
	}
}

func TestNameLeavesRoomForTheService(t *testing.T) {
	for name, ok := range map[string]bool{"web": true, "a": true, strings.Repeat("a", 55): true,
		strings.Repeat("a", 56): false,
		"1web":                  false, "we.b": false, "web-": false} {
		ws := decode(t, `{"metadata":{"name":"`+name+`"},"spec":{"image":"nginx"}}`)
		if _, err := desired(ws); (err == nil) != ok {
			t.Errorf("%s: error %v, want valid %t", name, err, ok)
		}
	}
}

func TestDesiredLeavesItsArgumentAlone(t *testing.T) {
	const text = `{` + identity + `,"spec":{"image":"nginx","template":{"metadata":{"labels":{"a":"b"}}},"env":[{"name":"A"}]}}`
	ws, untouched := decode(t, text), decode(t, text)
	for range 2 {
		if _, err := desired(ws); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := json.Marshal(ws)
	b, _ := json.Marshal(untouched)
	if !bytes.Equal(a, b) {
		t.Errorf("the cached WebServer was changed: %s, was %s", a, b)
	}
}
