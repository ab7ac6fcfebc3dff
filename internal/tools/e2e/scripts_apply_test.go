package e2e

// appliedService is a Service as skiff would apply it, with one port.
func appliedService(ports string) string {
	return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service","labels":{"app.kubernetes.io/managed-by":"skiff"}},
		"spec":{"type":"NodePort","selector":{"app":"web"},"ports":[` + ports + `]}}`
}

// appliedDeployment is a Deployment as skiff would apply it; env goes into the container.
func appliedDeployment(replicas, env string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","annotations":{"skiff.dev/hash":"1"}},"spec":{` + replicas + `
		"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
		"spec":{"containers":[{"name":"web","image":"nginx:1.23.1","env":[` + env + `],"ports":[{"name":"http","containerPort":80}],"resources":{"requests":{"cpu":"0.5"}}}]}}}}`
}

const podsPath = "/api/v1/${ns}/pods"

func appliedScale(name, rest string) string {
	return `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"` + name + `"},` + rest + `}`
}

// scaleApplied applies the Scale of a Deployment.
func scaleApplied(step, name, query, rest string) Step {
	return Step{Name: step, Method: "PATCH", Type: applyPatch, Path: deployments + "/" + name + "/scale" + query,
		Body: appliedScale(name, rest)}
}

// resized patches the container of the pod p.
func resized(step, container string) Step {
	return Step{Name: step, Method: "PATCH", Type: strategicPatch, Path: podsPath + "/p/resize",
		Body: `{"spec":{"containers":[{"name":"c",` + container + `}]}}`}
}

// applyScripts: server-side apply as skiff uses it.
var applyScripts = []Script{
	{Name: "apply", Steps: []Step{
		{Name: "create", Method: "PATCH", Type: applyPatch, Path: deployments + "/web?fieldManager=skiff&force=true",
			Body: appliedDeployment(`"replicas":2,`, `{"name":"A","value":"1"},{"name":"B","value":"2"}`)},
		{Name: "no change keeps the version", Method: "PATCH", Type: applyPatch,
			Path: deployments + "/web?fieldManager=skiff&force=true",
			Body: appliedDeployment(`"replicas":2,`, `{"name":"A","value":"1"},{"name":"B","value":"2"}`)},
		{Name: "dropped entry goes", Method: "PATCH", Type: applyPatch,
			Path: deployments + "/web?fieldManager=skiff&force=true",
			Body: appliedDeployment(`"replicas":2,`, `{"name":"B","value":"2"}`)},
		{Name: "somebody scales", Method: "PATCH", Type: mergePatch, Path: deployments + "/web?fieldManager=hpa",
			Body: `{"spec":{"replicas":5}}`},
		{Name: "unforced conflict", Method: "PATCH", Type: applyPatch, Path: deployments + "/web?fieldManager=skiff",
			Body: appliedDeployment(`"replicas":2,`, `{"name":"B","value":"2"}`)},
		{Name: "forced", Method: "PATCH", Type: applyPatch, Path: deployments + "/web?fieldManager=skiff&force=true",
			Body: appliedDeployment(`"replicas":2,`, `{"name":"B","value":"2"}`)},
		{Name: "hand replicas over", Method: "PATCH", Type: applyPatch,
			Path: deployments + "/web?fieldManager=skiff-handover&force=true",
			Body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":2}}`},
		{Name: "replicas are no longer declared", Method: "PATCH", Type: applyPatch,
			Path: deployments + "/web?fieldManager=skiff&force=true",
			Body: appliedDeployment("", `{"name":"B","value":"2"}`)},
		{Name: "conflict with another applier", Method: "PATCH", Type: applyPatch,
			Path: deployments + "/web?fieldManager=rival", Body: appliedDeployment(`"replicas":7,`,
				`{"name":"B","value":"3"}`)},
		{Name: "sidecar of another manager", Method: "PATCH", Type: strategicPatch,
			Path: deployments + "/web?fieldManager=injector",
			Body: `{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"envoy:1"}]}}}}`},
		{Name: "the sidecar stays", Method: "PATCH", Type: applyPatch,
			Path: deployments + "/web?fieldManager=skiff&force=true",
			Body: appliedDeployment("", `{"name":"C","value":"3"}`)},
		{Name: "without a manager", Method: "PATCH", Type: applyPatch, Path: deployments + "/web",
			Body: appliedDeployment("", "")},
		{Name: "with managed fields", Method: "PATCH", Type: applyPatch, Path: deployments + "/web?fieldManager=skiff",
			Body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","managedFields":[{"manager":"x","operation":"Apply"}]}}`},
		{Name: "another name than the path", Method: "PATCH", Type: applyPatch,
			Path: deployments + "/web?fieldManager=skiff",
			Body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"other"}}`},
		{Name: "unknown field", Method: "PATCH", Type: applyPatch, Path: deployments + "/web?fieldManager=skiff",
			Body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replica":1}}`},
		{Name: "stale uid must not create", Method: "PATCH", Type: applyPatch,
			Path: deployments + "/nobody?fieldManager=skiff&force=true",
			Body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"nobody","uid":"11111111-2222-3333-4444-555555555555"}}`},
	}},
	{Name: "apply-service", Steps: []Step{
		{Name: "create by POST", Method: "POST", Path: services + "?fieldManager=skiff",
			Body:    appliedService(`{"name":"http","port":80,"targetPort":"http"}`),
			Capture: map[string]string{"rv": "metadata.resourceVersion"}},
		{Name: "apply the same", Method: "PATCH", Type: applyPatch,
			Path: services + "/web-service?fieldManager=skiff&force=true",
			Body: appliedService(`{"name":"http","port":80,"targetPort":"http"}`)},
		{Name: "again", Method: "PATCH", Type: applyPatch, Path: services +
			"/web-service?fieldManager=skiff&force=true",
			Body: appliedService(`{"name":"http","port":80,"targetPort":"http"}`)},
		{Name: "declare the nodePort", Method: "PATCH", Type: applyPatch,
			Path: services + "/web-service?fieldManager=skiff&force=true",
			Body: appliedService(`{"name":"http","port":80,"targetPort":"http","nodePort":30052}`)},
		{Name: "no longer declare it", Method: "PATCH", Type: applyPatch,
			Path: services + "/web-service?fieldManager=skiff&force=true",
			Body: appliedService(`{"name":"http","port":80,"targetPort":"http"}`)},
		{Name: "another port number", Method: "PATCH", Type: applyPatch,
			Path: services + "/web-service?fieldManager=skiff&force=true",
			Body: appliedService(`{"name":"http","port":8080,"targetPort":"http"}`)},
		{Name: "a label of another manager", Method: "PATCH", Type: mergePatch,
			Path: services + "/web-service?fieldManager=other", Body: `{"metadata":{"labels":{"team":"red"}}}`},
		{Name: "it stays", Method: "PATCH", Type: applyPatch,
			Path: services + "/web-service?fieldManager=skiff&force=true",
			Body: appliedService(`{"name":"http","port":80,"targetPort":"http"}`)},
	}},
	{Name: "apply-custom", Steps: []Step{
		{Name: "create", Method: "PATCH", Type: applyPatch, Path: webServers + "/web?fieldManager=kubectl",
			Body: webServerBody},
		{Name: "no change keeps the version", Method: "PATCH", Type: applyPatch,
			Path: webServers + "/web?fieldManager=kubectl", Body: webServerBody},
		{Name: "dropped field goes", Method: "PATCH", Type: applyPatch, Path: webServers + "/web?fieldManager=kubectl",
			Body: `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"spec":{"image":"nginx:1.23.1"}}`},
		{Name: "env is a map by name", Method: "PATCH", Type: applyPatch, Path: webServers + "/web?fieldManager=env",
			Body: `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"spec":{"env":[{"name":"A","value":"1"}]}}`},
		{Name: "a second owner of the list", Method: "PATCH", Type: applyPatch,
			Path: webServers + "/web?fieldManager=env2",
			Body: `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"spec":{"env":[{"name":"B","value":"2"}]}}`},
		{Name: "status by apply", Method: "PATCH", Type: applyPatch,
			Path: webServers + "/web/status?fieldManager=skiff&force=true",
			Body: `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"status":{"observedGeneration":1,"replicas":2,
				"conditions":[{"type":"Ready","status":"True","reason":"AllReady","message":"ok","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`},
		{Name: "invalid", Method: "PATCH", Type: applyPatch, Path: webServers + "/web?fieldManager=kubectl&force=true",
			Body: `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"spec":{"image":"","replicas":-3}}`},
	}},
}

// objectScripts: subresources.
var objectScripts = []Script{
	{Name: "status", Steps: []Step{
		{Name: "create; its status is dropped", Method: "POST", Path: webServers,
			Body:    `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"spec":{"image":"nginx:1.23.1","replicas":2},"status":{"replicas":9}}`,
			Capture: map[string]string{"rv": "metadata.resourceVersion"}},
		{Name: "status does not touch the generation, nor the spec", Method: "PATCH", Type: mergePatch,
			Path: webServers + "/web/status?fieldManager=skiff",
			Body: `{"spec":{"replicas":9},"status":{"observedGeneration":1,"replicas":2,"selector":"app=web","conditions":[{"type":"Ready","status":"True","reason":"AllReady","message":"ok","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`},
		{Name: "the same again", Method: "PATCH", Type: mergePatch,
			Path: webServers + "/web/status?fieldManager=skiff",
			Body: `{"status":{"observedGeneration":1,"replicas":2}}`},
		{Name: "status through the main resource is ignored", Method: "PATCH", Type: mergePatch,
			Path: webServers + "/web", Body: `{"status":{"replicas":7}}`},
		{Name: "stale version", Method: "PATCH", Type: mergePatch, Path: webServers + "/web/status",
			Body: `{"metadata":{"resourceVersion":"${rv}"},"status":{"replicas":3}}`},
		{Name: "invalid condition", Method: "PATCH", Type: mergePatch, Path: webServers + "/web/status",
			Body: `{"status":{"conditions":[{"type":"Ready","status":"Maybe"}]}}`},
		{Name: "read", Path: webServers + "/web/status"},
		{Name: "not there", Method: "PATCH", Type: mergePatch, Path: webServers + "/zzz/status",
			Body: `{"status":{"replicas":3}}`},
		{Name: "deployment", Method: "POST", Path: deployments, Body: deploymentBody},
		{Name: "status of the deployment", Method: "PATCH", Type: mergePatch, Path: deployments + "/web/status",
			Body: `{"spec":{"replicas":9},"status":{"observedGeneration":1,"replicas":2,"readyReplicas":1}}`},
	}},
	{Name: "scale", Steps: []Step{
		{Name: "create", Method: "POST", Path: webServers, Body: webServerBody},
		{Name: "status", Method: "PATCH", Type: mergePatch, Path: webServers + "/web/status",
			Body: `{"status":{"replicas":1,"selector":"app=web"}}`},
		{Name: "read", Path: webServers + "/web/scale"},
		{Name: "change", Method: "PATCH", Type: mergePatch, Path: webServers + "/web/scale",
			Body: `{"spec":{"replicas":5}}`},
		{Name: "the object changed", Path: webServers + "/web"},
		{Name: "negative", Method: "PATCH", Type: mergePatch, Path: webServers + "/web/scale",
			Body: `{"spec":{"replicas":-5}}`},
		{Name: "deployment", Method: "POST", Path: deployments, Body: deploymentBody},
		{Name: "read the deployment's", Path: deployments + "/web/scale"},
		{Name: "change the deployment's", Method: "PATCH", Type: mergePatch,
			Path: deployments + "/web/scale?fieldManager=hpa", Body: `{"spec":{"replicas":5}}`},
		{Name: "the deployment changed", Path: deployments + "/web"},
		{Name: "not there", Path: deployments + "/zzz/scale"},
	}},
	{Name: "scale-by-apply", Steps: []Step{
		{Name: "create", Method: "POST", Path: deployments, Body: deploymentBody},
		scaleApplied("conflict", "web", "?fieldManager=hpa", `"spec":{"replicas":7}`),
		scaleApplied("forced", "web", "?fieldManager=hpa&force=true", `"spec":{"replicas":7}`),
		{Name: "the deployment changed", Path: deployments + "/web"},
		scaleApplied("no change", "web", "?fieldManager=hpa", `"spec":{"replicas":7}`),
		scaleApplied("rival", "web", "?fieldManager=rival", `"spec":{"replicas":8}`),
		scaleApplied("negative", "web", "?fieldManager=hpa", `"spec":{"replicas":-1}`),
		scaleApplied("without a manager", "web", "", `"spec":{"replicas":7}`),
		scaleApplied("dry run", "web", "?fieldManager=hpa&dryRun=All", `"spec":{"replicas":9}`),
		scaleApplied("not there", "nobody", "?fieldManager=hpa", `"spec":{"replicas":9}`),
		{Name: "another kind", Method: "PATCH", Type: applyPatch, Path: deployments + "/web/scale?fieldManager=hpa",
			Body: `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":7}}`},
		{Name: "custom", Method: "POST", Path: webServers, Body: webServerBody},
		{Name: "apply the custom one", Method: "PATCH", Type: applyPatch,
			Path: webServers + "/web/scale?fieldManager=hpa&force=true", Body: appliedScale("web", `"spec":{"replicas":4}`)},
		{Name: "the custom one changed", Path: webServers + "/web"},
	}},
	{Name: "resize", Steps: []Step{
		{Name: "create", Method: "POST", Path: podsPath, Body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"x","resources":{"requests":{"cpu":"100m"},"limits":{"memory":"1Gi"}}}]}}`},
		{Name: "read", Path: podsPath + "/p/resize"},
		resized("more", `"resources":{"requests":{"cpu":"200m"}}`),
		resized("limit", `"resources":{"limits":{"memory":"2Gi"}}`),
		resized("policy", `"resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]`),
		resized("removed", `"resources":{"requests":{"cpu":null}}`),
		resized("another resource", `"resources":{"requests":{"ephemeral-storage":"1Gi"}}`),
		resized("another class", `"resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}`),
		{Name: "another container", Method: "PATCH", Type: mergePatch, Path: podsPath + "/p/resize",
			Body: `{"spec":{"containers":[{"name":"d","image":"x"}]}}`},
		{Name: "one more", Method: "PATCH", Type: strategicPatch, Path: podsPath + "/p/resize",
			Body: `{"spec":{"containers":[{"name":"d","image":"x"}]}}`},
		{Name: "status of a kubelet that cannot", Method: "PATCH", Type: mergePatch, Path: podsPath + "/p/status",
			Body: `{"status":{"phase":"Running","containerStatuses":[{"name":"c","image":"x","imageID":"","ready":true,
			"restartCount":0,"state":{"running":{"startedAt":"2020-01-01T00:00:00Z"}}}]}}`},
		resized("refused by it", `"resources":{"requests":{"cpu":"300m"}}`),
		{Name: "not there", Path: podsPath + "/nobody/resize"},
	}},
}
