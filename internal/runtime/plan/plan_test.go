package plan

import (
	"encoding/json"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

var deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}

// Rules: PL-18
func TestValuesOfFlagsThatLookLikeCredentialsAreHiddenAndNoOthers(t *testing.T) {
	for args, want := range map[string]string{
		`["--password=x"]`:                      `["--password=(hidden, 1 bytes)"]`,
		`["--token","x","--v"]`:                 `["--token","(hidden, 1 bytes)","--v"]`,
		`["requirepass x y"]`:                   `["requirepass (hidden, 3 bytes)"]`,
		`["--requirepass a-pass","--port","1"]`: `["--requirepass (hidden, 6 bytes)","--port","1"]`,
		`["--port","1","secret"]`:               `["--port","1","secret"]`,
	} {
		list, err := patch.Decode([]byte(args))
		if err != nil {
			t.Fatal(err)
		}
		shown := new(mask).texts("args", list.([]any))
		if text, err := json.Marshal(shown); err != nil || string(text) != want {
			t.Errorf("%s is shown as %s (%v), want %s", args, text, err, want)
		}
	}
}

// A share of pods is one of all replicas, also where a partition keeps some of them.
//
// Rules: PL-12
func TestThePodsThatRollAreThoseThatTheControllersOfKubernetesReplace(t *testing.T) {
	for spec, want := range map[string]string{
		`{"replicas":10,"updateStrategy":{"rollingUpdate":{"partition":5,"maxUnavailable":"40%"}}}`: "rolls 5 pods " +
			"(RollingUpdate, 4 unavailable)",
		`{"replicas":10,"updateStrategy":{"rollingUpdate":{"maxUnavailable":"1%"}}}`: "rolls 10 pods (RollingUpdate, " +
			"1 unavailable)",
		`{"replicas":2,"updateStrategy":{"rollingUpdate":{"partition":2}}}`: "no pod rolls (partition 2)",
	} {
		object, err := decoded([]byte(`{"spec":` + spec + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, how := rollOf("StatefulSet", object); how != want {
			t.Errorf("%s: %q, want %q", spec, how, want)
		}
	}
}

// A live object and what is sent may hold anything. Nothing of it ends the process; and the merge patch that stands
// for an apply makes the object that was meant.
//
// Rules: PL-08, PL-10
func FuzzWrite(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","managedFields":[{"manager":"skiff","operation":"Update","fieldsV1":{
		"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{
		"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:ports":{
		"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}}]},"spec":{"replicas":3,
		"template":{"spec":{"containers":[{"name":"c",
		"ports":[{"name":"p","containerPort":80,"protocol":"TCP"}]}]}}}}`),
		[]byte(`{"metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c",
		"args":["--password","x"],"env":[{"name":"TOKEN","value":"y"}],
		"ports":[{"name":"p","containerPort":81,"protocol":"TCP"}]}]}}}}`))
	f.Add([]byte(`{"metadata":{"annotations":7,"ownerReferences":[7]},"spec":[]}`),
		[]byte(`{"spec":{"template":null}}`))
	f.Fuzz(func(t *testing.T, live, sent []byte) {
		before, errLive := decoded(live)
		body, errSent := decoded(sent)
		if errLive != nil || errSent != nil || before == nil || body == nil {
			return
		}
		schema := patch.SchemaFor(deployments.APIVersion(), deployments.Kind)
		managers := managersOf(live)
		for _, fields := range []bool{true, false} {
			rest := pruned(schema, before, body, owners(managers, "skiff", nil), fields)
			after, _ := overlay(schema, rest, body).(map[string]any)
			if !hasNull(after) && !patch.Equal(merged(before, mergePatch(before, after)), after) {
				t.Errorf("%s\n%s\nbecome %v", live, sent, after)
			}
		}
		p := New(Options{Client: &kube.Client{}})
		for _, kind := range []kube.PatchType{kube.ApplyPatch, kube.MergePatch, kube.StrategicMergePatch,
			kube.JSONPatch} {
			w := kube.Write{Verb: "patch", Resource: deployments, Type: kind, Manager: "skiff", Before: live,
				Body: sent}
			p.instead(&w)
			answerOf(&w)
		}
		var s secrets
		s.add(kube.Resource{Kind: "Secret"}, live)
		fields, err := Differences(deployments, live, sent)
		if err != nil {
			t.Fatal(err)
		}
		for i := range fields {
			s.cut(fields[i].text(false))
		}
		rollOf("Deployment", before)
		rollOf("StatefulSet", before)
		rollOf("DaemonSet", before)
	})
}

// hasNull says whether a value has null in an object: a merge patch cannot set that.
func hasNull(v any) bool {
	object, _ := v.(map[string]any)
	for _, field := range object {
		if field == nil || hasNull(field) {
			return true
		}
	}
	return false
}
