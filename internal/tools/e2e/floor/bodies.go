package main

import "fmt"

// metadata is that of a child.
func (f *floor) metadata(name, owner string, w webServer, hash string) string {
	return fmt.Sprintf(`{"name":%q,"namespace":%q,"labels":{"app.kubernetes.io/instance":%[3]q,`+
		`"app.kubernetes.io/managed-by":"skiff","app.kubernetes.io/name":"webserver"},`+
		`"annotations":{"skiff.dev/desired-hash":%[4]q},"ownerReferences":[{"apiVersion":"skiff.dev/v1alpha1",`+
		`"blockOwnerDeletion":true,"controller":true,"kind":"WebServer","name":%[3]q,"uid":%[5]q}]}`,
		name, f.namespace, owner, hash, w.uid)
}

// selector is the labels by which pods are selected.
func selector(name string) string {
	return fmt.Sprintf(`{"app.kubernetes.io/instance":%q,"app.kubernetes.io/name":"webserver"}`, name)
}

func (f *floor) deployment(name string, w webServer) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":%s,"spec":{"replicas":2,`+
		`"selector":{"matchLabels":%[2]s},"template":{"metadata":{"labels":%[2]s},"spec":{"containers":[{`+
		`"name":"webserver","image":%[3]q,"ports":[{"name":"http","containerPort":80,"protocol":"TCP"}]}]}}}}`,
		f.metadata(name, name, w, "4705d08ea3bc809b"), selector(name), w.image)
}

func (f *floor) service(name string, w webServer) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":%s,"spec":{"type":"NodePort","selector":%s,`+
		`"ports":[{"name":"http","port":80,"targetPort":"http","protocol":"TCP"}]}}`,
		f.metadata(name+"-service", name, w, "b285d33dde8d682c"), selector(name))
}

// status is that of a WebServer whose Deployment no controller has seen yet.
func (f *floor) status(name string, nodePort int) string {
	condition := func(kind, status, reason, message string) string {
		return fmt.Sprintf(`{"type":%q,"status":%q,"reason":%q,"message":%q,"observedGeneration":1,`+
			`"lastTransitionTime":"2026-11-26T18:11:24Z"}`, kind, status, reason, message)
	}
	return fmt.Sprintf(`{"status":{"observedGeneration":1,"state":"Progressing","ready":"0/2","replicas":0,`+
		`"readyReplicas":0,"updatedReplicas":0,"selector":"app.kubernetes.io/instance=%s,`+
		`app.kubernetes.io/name=webserver","nodePort":%d,"conditions":[%s,%s,%s,%s,%s]}}`, name, nodePort,
		condition("Ready", "False", "RollingOut", "0 of 2 pods are available"),
		condition("Progressing", "True", "RollingOut", "0 of 2 pods are updated"),
		condition("Degraded", "False", "AsExpected", "nothing is wrong"),
		condition("Stalled", "False", "AsExpected", "not stalled"),
		condition("Paused", "False", "NotAnnotated", "not paused"))
}

func (f *floor) event(j job, w webServer) string {
	reason, note := "Create", "created Deployment "+j.name+" and Service "+j.name+"-service"
	if j.serviceGone {
		reason, note = "Recreate", "created Service "+j.name+"-service"
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"generateName":"%s.","namespace":%q},`+
		`"involvedObject":{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","name":%[1]q,"namespace":%[2]q,`+
		`"uid":%[3]q,"resourceVersion":%[4]q},"type":"Normal","reason":%[5]q,"action":"Reconcile","message":%[6]q,`+
		`"eventTime":"2026-11-26T18:11:24.000000Z","reportingComponent":"skiff.dev/webserver",`+
		`"reportingInstance":"floor"}`, j.name, f.namespace, w.uid, w.version, reason, note)
}
