package kinds

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

func v1(plural, kind string) kube.Resource {
	return kube.Resource{Version: "v1", Plural: plural, Kind: kind}
}

func clusterScoped(r kube.Resource) kube.Resource {
	r.ClusterScoped = true
	return r
}

// core returns the kinds of the core group, in the real server's order.
func core() []*Kind {
	return []*Kind{
		{Resource: v1("configmaps", "ConfigMap"), ShortNames: []string{"cm"}, Columns: configMapColumns,
			Validate: dataRules("data", "binaryData", "[]")},
		{Resource: v1("endpoints", "Endpoints"), Singular: "endpoints",
			Warning:    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
			ShortNames: []string{"ep"}, CreateOnUpdate: true, Defaults: endpointsDefaults, Columns: endpointsColumns},
		{Resource: v1("events", "Event"), Table: "events", ShortNames: []string{"ev"},
			CreateOnUpdate: true, Fields: eventFields,
			Prepare: prepareEvent, Validate: eventRules, Columns: eventColumns},
		{Resource: clusterScoped(v1("namespaces", "Namespace")), ShortNames: []string{"ns"},
			Name: selector.Label, Status: true,
			NewStatus: constant(Object{"phase": "Active"}), Prepare: prepareNamespace, Defaults: namespaceDefaults,
			Fields: map[string]func(Object) string{"status.phase": at("status", "phase")}, Columns: namespaceColumns},
		{Resource: clusterScoped(v1("nodes", "Node")), ShortNames: []string{"no"}, Status: true,
			NewStatus: constant(Object{"daemonEndpoints": Object{"kubeletEndpoint": Object{"Port": int64(0)}},
				"nodeInfo": nodeInfo()}),
			Fields:  map[string]func(Object) string{"spec.unschedulable": boolAt("spec", "unschedulable")},
			Columns: nodeColumns},
		{Resource: v1("persistentvolumeclaims", "PersistentVolumeClaim"), ShortNames: []string{"pvc"}, Status: true,
			NewStatus: constant(Object{"phase": "Pending"}), DeleteReturns: true, Defaults: claimDefaults,
			Validate: claimRules, Columns: claimColumns},
		{Resource: v1("pods", "Pod"), ShortNames: []string{"po"}, Categories: []string{"all"},
			Status: true, NewStatus: newPodStatus,
			Generation: specChanged, DeleteReturns: true, Graceful: podGrace, Prepare: preparePod,
			Defaults: podDefaults, Validate: podRules,
			Fields: podFields, Columns: podColumns},
		{Resource: v1("secrets", "Secret"), Defaults: secretDefaults, Warn: secretWarnings,
			Validate: rules(dataRules("", "data", "data"), secretRules, immutable("type")),
			Fields:   map[string]func(Object) string{"type": at("type")}, Columns: secretColumns},
		{Resource: v1("serviceaccounts", "ServiceAccount"), ShortNames: []string{"sa"},
			DeleteReturns: true, Columns: ageOnly},
		{Resource: v1("services", "Service"), ShortNames: []string{"svc"}, CreateOnUpdate: true,
			Categories: []string{"all"}, Status: true, DeleteReturns: true,
			NewStatus: constant(Object{"loadBalancer": Object{}}), Name: selector.Label,
			Defaults: serviceDefaults, Prepare: prepareService,
			Validate: serviceRules, Allocate: allocateService,
			Fields: map[string]func(Object) string{"spec.clusterIP": at("spec", "clusterIP"),
				"spec.type": at("spec", "type")},
			Columns: serviceColumns},
	}
}

// at returns a function that reads a string field.
func at(path ...string) func(Object) string {
	return func(o Object) string { return obj.String(o, path...) }
}

func boolAt(path ...string) func(Object) string {
	return func(o Object) string {
		if obj.Bool(o, path...) {
			return "true"
		}
		return "false"
	}
}

func nodeInfo() Object {
	out := Object{}
	for _, f := range []string{"machineID", "systemUUID", "bootID", "kernelVersion", "osImage",
		"containerRuntimeVersion",
		"kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"} {
		out[f] = ""
	}
	return out
}

func namespaceDefaults(o Object) {
	obj.Set(o, obj.String(o, "metadata", "name"), "metadata", "labels", "kubernetes.io/metadata.name")
}

func prepareNamespace(next, cur Object) {
	if cur == nil {
		obj.Set(next, []any{"kubernetes"}, "spec", "finalizers")
		return
	}
	// Only the finalize subresource may remove spec.finalizers; it does so itself.
	next["spec"] = obj.Clone(obj.Map(cur, "spec"))
}

// maxData is the limit of the total data of a ConfigMap or a Secret.
const maxData = 1 << 20

// dataRules validates ConfigMaps and Secrets, which have text in the field plain and base64 in the field encoded. at
// is the field that is reported if there is too much data.
func dataRules(plain, encoded, at string) func(next, cur Object) []Cause {
	return func(next, cur Object) []Cause {
		total := 0
		for _, v := range obj.Strings(next, plain) {
			total += len(v)
		}
		for _, v := range obj.Strings(next, encoded) {
			total += base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(v, "=")))
		}
		out := append(immutableData(next, cur), runChecks(next, "", dataChecks)...)
		for _, key := range sortedKeys(obj.Map(next, "binaryData")) {
			if _, twice := obj.Map(next, "data")[key]; twice {
				out = append(out, Invalid("data["+key+"]", key, "duplicate of key present in binaryData"))
			}
		}
		if total > maxData {
			out = append(out, TooLong(at, maxData))
		}
		return out
	}
}

// dataChecks are those of the keys of ConfigMaps and Secrets.
var dataChecks = []check{must("data", keysAre(selector.DataKey, true)),
	must("binaryData", keysAre(selector.DataKey, true))}

// secretKeys are the keys that Secrets of a type must have.
var secretKeys = map[string][]string{"kubernetes.io/tls": {"tls.crt", "tls.key"},
	"kubernetes.io/ssh-auth": {"ssh-privatekey"}, "kubernetes.io/dockercfg": {".dockercfg"},
	"kubernetes.io/dockerconfigjson": {".dockerconfigjson"}}

// secretRules validates what is declared by the type of a Secret.
func secretRules(next, _ Object) []Cause {
	var out []Cause
	kind, data := obj.String(next, "type"), obj.Map(next, "data")
	need := secretKeys[kind]
	if kind == "kubernetes.io/basic-auth" && data["username"] == nil && data["password"] == nil {
		need = []string{"password", "username"}
	}
	for _, key := range need {
		text, ok := data[key].(string)
		switch {
		case !ok || text == "" && key == "ssh-privatekey":
			out = append(out, Required("data["+key+"]", ""))
		case strings.HasPrefix(key, ".docker"):
			var config map[string]any
			decoded, _ := base64.StdEncoding.DecodeString(text) // what is no base64 has been refused before
			if err := json.Unmarshal(decoded, &config); err != nil {
				out = append(out, Invalid("data["+key+"]", "<secret contents redacted>", err.Error()))
			}
		}
	}
	const account = "kubernetes.io/service-account.name"
	if kind == "kubernetes.io/service-account-token" && obj.String(next, "metadata", "annotations", account) == "" {
		out = append(out, Required("metadata.annotations["+account+"]", ""))
	}
	return out
}

// secretWarnings are those about certificates that nobody can use.
func secretWarnings(o Object) []string {
	if obj.String(o, "type") != "kubernetes.io/tls" {
		return nil
	}
	var pair [2][]byte
	for i, key := range secretKeys["kubernetes.io/tls"] {
		pair[i], _ = base64.StdEncoding.DecodeString(obj.String(o, "data", key))
	}
	if _, err := tls.X509KeyPair(pair[0], pair[1]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// immutableData refuses changes of ConfigMaps and Secrets that are immutable.
func immutableData(next, cur Object) []Cause {
	if !obj.Bool(cur, "immutable") {
		return nil
	}
	var out []Cause
	for _, f := range []string{"immutable", "data", "binaryData"} {
		if !patch.Equal(next[f], cur[f]) {
			out = append(out, Forbidden(f, "field is immutable when `immutable` is set"))
		}
	}
	return out
}

// secretDefaults moves stringData, which is write-only, to data.
func secretDefaults(next Object) {
	for key, v := range obj.Strings(next, "stringData") {
		obj.Set(next, base64.StdEncoding.EncodeToString([]byte(v)), "data", key)
	}
	delete(next, "stringData")
	obj.Default(next, "Opaque", "type")
}

func endpointsDefaults(o Object) {
	for _, s := range obj.Maps(o, "subsets") {
		for _, p := range obj.Maps(s, "ports") {
			obj.Default(p, "TCP", "protocol")
		}
	}
}

var eventFields = map[string]func(Object) string{
	"involvedObject.kind": at("involvedObject", "kind"), "involvedObject.namespace": at("involvedObject", "namespace"),
	"involvedObject.name": at("involvedObject", "name"), "involvedObject.uid": at("involvedObject", "uid"),
	"involvedObject.apiVersion":      at("involvedObject", "apiVersion"),
	"involvedObject.resourceVersion": at("involvedObject", "resourceVersion"),
	"involvedObject.fieldPath":       at("involvedObject", "fieldPath"),
	"reason":                         at("reason"), "reportingComponent": at("reportingComponent"), "type": at("type"),
	"source": func(o Object) string {
		if c := obj.String(o, "source", "component"); c != "" {
			return c
		}
		return obj.String(o, "reportingComponent")
	},
}

// prepareEvent adds the fields that the Go type always shows.
func prepareEvent(o, _ Object) {
	for _, f := range []string{"involvedObject", "source"} {
		obj.Default(o, Object{}, f)
	}
	for _, f := range []string{"reportingComponent", "reportingInstance"} {
		obj.Default(o, "", f)
	}
	for _, f := range []string{"eventTime", "firstTimestamp", "lastTimestamp"} {
		if _, ok := o[f]; !ok {
			o[f] = nil // shown as null
		}
	}
}

// eventRules requires that an Event is in the namespace of its object, or in "default" for a cluster-scoped object.
func eventRules(next, cur Object) []Cause {
	ns, about := obj.String(next, "metadata", "namespace"), obj.String(next, "involvedObject", "namespace")
	if about != "" && about != ns || about == "" && ns != "default" && ns != "kube-system" {
		return []Cause{Invalid("involvedObject.namespace", about, "does not match event.namespace")}
	}
	return nil
}

// FormatSelector formats a LabelSelector in the syntax of kubectl -l.
func FormatSelector(sel Object) string {
	var out []string
	for _, k := range sortedKeys(obj.Map(sel, "matchLabels")) {
		out = append(out, k+"="+obj.String(sel, "matchLabels", k))
	}
	for _, e := range obj.Maps(sel, "matchExpressions") {
		key, values := obj.String(e, "key"), []string{}
		for _, v := range obj.Slice(e, "values") {
			if s, ok := v.(string); ok {
				values = append(values, s)
			}
		}
		switch op := obj.String(e, "operator"); op {
		case "Exists":
			out = append(out, key)
		case "DoesNotExist":
			out = append(out, "!"+key)
		default:
			out = append(out, key+" "+strings.ToLower(op)+" ("+strings.Join(values, ",")+")")
		}
	}
	return strings.Join(out, ",")
}
