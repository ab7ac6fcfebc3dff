package e2e

import (
	"maps"
	"slices"
	"strings"
)

// kindScripts: what each of the kinds is that operators make children of, besides those of the other scripts. Where a
// controller of the real cluster would write to the object meanwhile, the requests are dry runs.
var kindScripts = slices.Concat(
	kindScript{"job", "/apis/batch/v1/${ns}/jobs", "batch/v1", "Job",
		`"managedBy":"skiff.dev/nobody",` + podTemplateOnce,
		map[string]string{
			"defaults that depend": `"completionMode":"Indexed","completions":3,"backoffLimitPerIndex":1,` +
				podTemplateOnce,
			"that restarts":        `"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}`,
			"negative numbers":     `"parallelism":-1,"backoffLimit":-1,` + podTemplateOnce,
			"indexed, of how many": `"completionMode":"Indexed","parallelism":1,` + podTemplateOnce,
		}, `{"spec":{"parallelism":2}}`, `{"spec":{"completions":7}}`}.steps(),
	kindScript{"cron-job", "/apis/batch/v1/${ns}/cronjobs", "batch/v1", "CronJob",
		`"schedule":"*/5 * * * *","suspend":true,"jobTemplate":{"spec":{` + podTemplateOnce + `}}`, map[string]string{
			"no schedule": `"jobTemplate":{"spec":{` + podTemplateOnce + `}}`,
			"broken":      `"schedule":"every day","jobTemplate":{"spec":{` + podTemplateOnce + `}}`,
			"unknown policy": `"schedule":"@daily","concurrencyPolicy":"Maybe","jobTemplate":{"spec":{` +
				podTemplateOnce + `}}`,
		}, `{"spec":{"schedule":"@daily"}}`, `{"spec":{"schedule":""}}`}.steps(),
	kindScript{"ingress", "/apis/networking.k8s.io/v1/${ns}/ingresses", "networking.k8s.io/v1", "Ingress",
		`"ingressClassName":"nginx","rules":[{"host":"a.example","http":{"paths":[{"path":"/","pathType":"Prefix",
			"backend":{"service":{"name":"web","port":{"number":80}}}}]}}]`, map[string]string{
			"default backend": `"defaultBackend":{"service":{"name":"web","port":{"name":"http"}}},` +
				`"tls":[{"hosts":["a.example"]}]`,
			"empty": ``,
			"no path type": `"rules":[{"http":{"paths":[{"path":"/","backend":{"service":{"name":"web",` +
				`"port":{"number":80}}}}]}}]`,
			"relative path": `"rules":[{"http":{"paths":[{"path":"a","pathType":"Exact","backend":{"service":{
				"name":"web",
				"port":{"number":80}}}}]}}]`,
			"no port": `"defaultBackend":{"service":{"name":"web"}}`,
		}, `{"spec":{"ingressClassName":"other"}}`, `{"spec":{"rules":null}}`}.steps(),
	kindScript{"network-policy", "/apis/networking.k8s.io/v1/${ns}/networkpolicies",
		"networking.k8s.io/v1", "NetworkPolicy",
		`"podSelector":{"matchLabels":{"app":"web"}},"ingress":[{"from":[{"podSelector":{}}],"ports":[{"port":80}]}]`,
		map[string]string{
			"all":          `"podSelector":{}`,
			"egress":       `"podSelector":{},"egress":[{}]`,
			"unknown type": `"podSelector":{},"policyTypes":["Sideways"]`,
		}, `{"spec":{"policyTypes":["Ingress","Egress"]}}`, `{"spec":{"policyTypes":["Sideways"]}}`}.steps(),
	kindScript{"budget", "/apis/policy/v1/${ns}/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget",
		`"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}`, map[string]string{
			"percentage": `"maxUnavailable":"50%","selector":{"matchLabels":{"app":"web"}}`,
			"both":       `"minAvailable":1,"maxUnavailable":1,"selector":{"matchLabels":{"app":"web"}}`,
			"negative":   `"minAvailable":-1,"selector":{"matchLabels":{"app":"web"}}`,
			"no number":  `"minAvailable":"many","selector":{"matchLabels":{"app":"web"}}`,
		}, "", ""}.steps(),
	kindScript{"claim", "/api/v1/${ns}/persistentvolumeclaims", "v1", "PersistentVolumeClaim",
		`"storageClassName":"none","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}`,
		map[string]string{
			"no modes":     `"resources":{"requests":{"storage":"1Gi"}}`,
			"unknown mode": `"accessModes":["Write"],"resources":{"requests":{"storage":"1Gi"}}`,
			"no size":      `"accessModes":["ReadWriteOnce"]`,
		}, "", ""}.steps(),
	[]Script{{Name: "ingress-class", Steps: []Step{
		{Name: "create", Method: "POST", Path: ingressClasses, Body: `{"apiVersion":"networking.k8s.io/v1",
			"kind":"IngressClass","metadata":{"name":"scripted"},"spec":{"controller":"example.com/c",
			"parameters":{"kind":"Config","name":"c"}}}`},
		{Name: "no controller", Method: "POST", Path: ingressClasses, Body: `{"apiVersion":"networking.k8s.io/v1",
			"kind":"IngressClass",
			"metadata":{"name":"bad"},"spec":{}}`},
		{Name: "table", Path: ingressClasses + "/scripted", Accept: asTable},
		{Name: "another controller", Method: "PATCH", Type: mergePatch, Path: ingressClasses + "/scripted",
			Body: `{"spec":{"controller":"example.com/d"}}`},
		{Name: "delete", Method: "DELETE", Path: ingressClasses + "/scripted"},
	}}},
	[]Script{{Name: "api-service", Steps: []Step{
		{Name: "delete", Method: "DELETE", Path: "/api/v1/namespaces/default/services/kubernetes"},
		{Name: "it comes back", Path: "/api/v1/namespaces/default/services/kubernetes", Until: "clusterIP"},
	}}},
)

const (
	ingressClasses  = "/apis/networking.k8s.io/v1/ingressclasses"
	podTemplateOnce = `"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}`
)

// kindScript makes the script of a namespaced kind. spec and variants are the members of specs; the variants are dry
// runs. change and refused are merge patches; without them a controller writes to the object.
type kindScript struct {
	name, path, apiVersion, kind, spec string
	variants                           map[string]string
	change, refused                    string
}

func (k kindScript) steps() []Script {
	o := objectScript{kindScript: k, typo: `"spec":{` + k.spec + `,"typo":1}`}
	o.spec = `"spec":{` + k.spec + `}`
	o.variants = map[string]string{}
	for name, spec := range k.variants {
		o.variants[name] = `"spec":{` + spec + `}`
	}
	return o.steps()
}

// objectScript is a kindScript whose spec and variants are the members of objects besides metadata. typo is spec with
// an unknown field.
type objectScript struct {
	kindScript
	typo string
}

func (k objectScript) steps() []Script {
	body := func(name, rest string) string {
		return `{"apiVersion":"` + k.apiVersion + `","kind":"` + k.kind + `","metadata":{"name":"` + name + `"},` +
			rest + `}`
	}
	dry := k.path + "?dryRun=All"
	steps := []Step{{Name: "created by a dry run", Method: "POST", Path: dry, Body: body("dry", k.spec)},
		{Name: "unknown field", Method: "POST", Path: dry + "&fieldValidation=Strict",
			Body: body("typo", k.typo)},
		{Name: "bad name", Method: "POST", Path: dry, Body: body("A_B", k.spec)},
		{Name: "applied by a dry run", Method: "PATCH", Type: applyPatch,
			Path: k.path + "/applied?fieldManager=skiff&dryRun=All",
			Body: body("applied", k.spec)}}
	for _, name := range slices.Sorted(maps.Keys(k.variants)) {
		steps = append(steps, Step{Name: name, Method: "POST", Path: dry, Body: body("variant", k.variants[name])})
	}
	if strings.Contains(k.path, "${ns}") { // a real server has objects of some other kinds from the beginning
		steps = append(steps, Step{Name: "empty list", Path: k.path},
			Step{Name: "empty table", Path: k.path, Accept: asTable})
	}
	if k.change != "" {
		steps = append(steps, Step{Name: "create", Method: "POST", Path: k.path, Body: body("one", k.spec)},
			Step{Name: "table", Path: k.path + "/one", Accept: asTable},
			Step{Name: "change", Method: "PATCH", Type: mergePatch, Path: k.path + "/one", Body: k.change},
			Step{Name: "no change", Method: "PATCH", Type: mergePatch, Path: k.path + "/one", Body: k.change},
			Step{Name: "refused", Method: "PATCH", Type: mergePatch, Path: k.path + "/one",
				Body: or(k.refused, `{"metadata":{"labels":{"a":"not/allowed/"}}}`)},
			Step{Name: "status", Path: k.path + "/one/status"},
			Step{Name: "delete by a dry run", Method: "DELETE", Path: k.path + "/one?dryRun=All"},
			Step{Name: "delete", Method: "DELETE", Path: k.path + "/one", Body: `{"propagationPolicy":"Background"}`})
	}
	return []Script{{Name: k.name, Steps: steps}}
}
