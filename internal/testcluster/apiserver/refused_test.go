package apiserver

import (
	"strings"
	"testing"
)

// The differential scripts of internal/tools/e2e (scripts_refused_test.go) compare two hundred more with a real
// server.
//
// Rules: FS-16
func TestWhatARealServerRefusesIsRefusedInItsWords(t *testing.T) {
	const (
		secrets  = "/api/v1/namespaces/default/secrets"
		pods     = "/api/v1/namespaces/default/pods"
		scalers  = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
		leases   = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
		crons    = "/apis/batch/v1/namespaces/default/cronjobs"
		budgets  = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
		requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
		sets     = "/apis/apps/v1/namespaces/default/statefulsets"
		named    = `{"metadata":{"name":"x"},`
		once     = `"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}`
		body     = `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{
			"containers":[{"name":"c","image":"i"}]}}`
	)
	container := func(more string) string {
		return named + `"spec":{"containers":[{"name":"c","image":"i",` + more + `}]}}`
	}
	for _, tc := range []struct{ path, body, want string }{
		{secrets, named + `"type":"kubernetes.io/tls"}`,
			"[data[tls.crt]: Required value, data[tls.key]: Required value]"},
		{secrets, named + `"data":{"":""}}`, `data[]: Invalid value: "": a valid config key must consist of`},
		{deployments, named + `"spec":{"strategy":{"type":"Recreate","rollingUpdate":{"maxSurge":1}},` + body + `}}`,
			"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"},
		{scalers, named + `"spec":{"minReplicas":3,"maxReplicas":2,"scaleTargetRef":{"kind":"Deployment","name":"d"}}}`,
			"spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"},
		{scalers, named + `"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"}}}`,
			"[spec.maxReplicas: Required value: must be set and greater than 0, " +
				"spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`]"},
		{leases, named + `"spec":{"leaseDurationSeconds":-1}}`,
			"spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0"},
		{pods, container(`"livenessProbe":{}`),
			"spec.containers[0].livenessProbe: Required value: must specify a handler type"},
		{pods, container(`"volumeMounts":[{"name":"v","mountPath":"/v"}]`),
			`spec.containers[0].volumeMounts[0].name: Not found: "v"`},
		{crons, named + `"spec":{"schedule":"60 * * * *","jobTemplate":{"spec":{` + once + `}}}}`,
			`spec.schedule: Invalid value: "60 * * * *": end of range (60) above maximum (59): 60`},
		{crons, named + `"spec":{"schedule":"@daily","timeZone":"local","jobTemplate":{"spec":{` + once + `}}}}`,
			`spec.timeZone: Invalid value: "local": timeZone must be an explicit time zone`},
		{budgets, named + `"spec":{"maxUnavailable":"99999999999999999999%"}}`,
			`spec.maxUnavailable: Invalid value: "99999999999999999999%": must not be greater than 100%`},
		{pods, named + `"spec":{"subdomain":"A","nodeName":"B","containers":[{"name":"c","image":"i"}]}}`,
			`spec.nodeName: Invalid value: "B": a lowercase RFC 1123 subdomain`},
		{sets, `{"metadata":{"name":"a.b"},"spec":{` + body + `}}`, `metadata.name: Invalid value: "a.b": must not contain`},
		{requests, named + `"spec":{"usages":["any"],"signerName":"com/A"}}`, `spec.signerName: Invalid value: "com": ` +
			"should be a domain with at least two segments separated by dots, spec.signerName: Invalid value: " +
			`"A": validating label "A": a lowercase RFC 1123 subdomain`},
		// What is invalid is told before what is there already, and before a version that a new object cannot have.
		{configMaps, `{"metadata":{"name":"there"},"data":{"a b":""}}`, `data[a b]: Invalid value: "a b"`},
		{configMaps, `{"metadata":{"name":"A","resourceVersion":"1"}}`, `metadata.name: Invalid value: "A"`},
	} {
		inWorld(t, Options{}, func(w *world) {
			w.must(201, "POST", configMaps, configMap("there"))
			if a := w.must(422, "POST", tc.path, tc.body); !strings.Contains(a.at("message").(string), tc.want) {
				t.Errorf("POST %s %s\nanswers %q,\nwant %q", tc.path, tc.body, a.at("message"), tc.want)
			}
		})
	}
	inWorld(t, Options{}, func(w *world) {
		a := w.must(400, "POST", budgets, named+`"spec":{"minAvailable":1099511627776}}`)
		if want := "number 1099511627776 into Go value of type int32"; !strings.Contains(a.raw, want) {
			t.Errorf("a number that no int32 holds: %s", a.raw)
		}
		w.must(400, "POST", budgets, named+`"spec":{"minAvailable":1.5}}`)
		w.must(201, "POST", secrets, named+`"type":"a/b"}`)
		w.must(422, "PATCH", secrets+"/x", `{"type":"a/c"}`, "Content-Type", "application/merge-patch+json")
		w.must(201, "POST", sets, named+`"spec":{"serviceName":"s",`+body+`}}`)
		w.must(422, "PATCH", sets+"/x", `{"spec":{"serviceName":"t"}}`, "Content-Type", "application/merge-patch+json")
		w.must(200, "PATCH", sets+"/x", `{"spec":{"replicas":2}}`, "Content-Type", "application/merge-patch+json")
		w.must(201, "POST", configMaps+"?dryRun=All", `{"metadata":{"name":"dry","resourceVersion":"1"}}`)
		w.must(500, "POST", configMaps, `{"metadata":{"name":"dry","resourceVersion":"1"}}`)
	})
}

// Rules: FS-21
func TestAllFindingsOfStrictDecodingAreTold(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		const body = "metadata:\n  name: a\n  typo: 1\n  name: b\ndata:\n  k: v\n  k: w\nmore: 1\n"
		a := w.must(400, "POST", configMaps+"?fieldValidation=Strict", body, "Content-Type", "application/yaml")
		const want = "strict decoding error: yaml: unmarshal errors:\n  line 4: key \"name\" already set in map\n" +
			"  line 7: key \"k\" already set in map, unknown field \"metadata.typo\", unknown field \"more\""
		if text := a.at("message").(string); !strings.HasSuffix(text, want) {
			t.Errorf("the answer is %q, want %q", text, want)
		}
	})
}
