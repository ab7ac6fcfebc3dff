package reload

import (
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func TestHowFarARestartIs(t *testing.T) {
	const condition = `,"conditions":[{"type":"Progressing","status":`
	for name, c := range map[string]struct {
		kind, spec, status string
		ago                time.Duration // the restart was
		rolls, fails       bool
	}{
		"it rolls": {"Deployment", `"replicas":5`,
			`"replicas":6,"updatedReplicas":3,"availableReplicas":5` + condition + `"True","reason":"ReplicaSetUpdated"}]`,
			time.Minute, true, false},
		"it rolls slowly, within its deadline": {"Deployment", `"replicas":5,"progressDeadlineSeconds":3600`,
			`"replicas":6,"updatedReplicas":3,"availableReplicas":5` + condition + `"True","reason":"ReplicaSetUpdated"}]`,
			30 * time.Minute, true, false},
		"progress without an end": {"Deployment", `"replicas":5`,
			`"replicas":6,"updatedReplicas":3,"availableReplicas":5` + condition + `"True","reason":"ReplicaSetUpdated"}]`,
			2 * time.Hour, false, true},
		"its deadline is over": {"Deployment", `"replicas":5`, `"replicas":6,"updatedReplicas":3,"availableReplicas":5` +
			condition + `"False","reason":"ProgressDeadlineExceeded"}]`, time.Minute, false, true},
		"the deadline of an older template": {"Deployment", `"replicas":5`, `"observedGeneration":3,"replicas":5,` +
			`"updatedReplicas":5` + condition + `"False","reason":"ProgressDeadlineExceeded"}]`, 0, true, false},
		"a pod is missing long after": {"Deployment", `"replicas":5`, `"replicas":5,"updatedReplicas":5,"availableReplicas":4` +
			condition + `"True","reason":"NewReplicaSetAvailable"}]`, time.Hour, false, false},
		"scaled up long after": {"Deployment", `"replicas":9`, `"replicas":5,"updatedReplicas":5,"availableReplicas":5` +
			condition + `"True","reason":"NewReplicaSetAvailable"}]`, time.Hour, false, false},
		"without a deadline": {"Deployment", `"replicas":5`, `"replicas":6,"updatedReplicas":1,"availableReplicas":5`,
			time.Hour, false, true},
		"paused by a user": {"Deployment", `"replicas":5,"paused":true`, `"replicas":6,"updatedReplicas":3` + condition +
			`"Unknown","reason":"DeploymentPaused"}]`, time.Hour, false, false},
		"a set whose pod is missing long after": {"StatefulSet", `"replicas":3`, `"replicas":3,"updatedReplicas":3,` +
			`"readyReplicas":2,"currentRevision":"a","updateRevision":"a"`, time.Hour, false, false},
		"a set that does not end": {"StatefulSet", `"replicas":3`, `"replicas":3,"updatedReplicas":1,` +
			`"readyReplicas":2,"currentRevision":"a","updateRevision":"b"`, time.Hour, false, true},
		"a set that a user rolls": {"StatefulSet", `"replicas":3,"updateStrategy":{"type":"OnDelete"}`, `"replicas":3,` +
			`"updatedReplicas":1,"readyReplicas":3,"currentRevision":"a","updateRevision":"b"`, time.Hour, false, false},
		"one node of many": {"DaemonSet", `"x":0`, `"desiredNumberScheduled":9,"updatedNumberScheduled":9,"numberAvailable":8`,
			time.Hour, false, false},
		"all nodes": {"DaemonSet", `"x":0`, `"desiredNumberScheduled":9,"updatedNumberScheduled":9`, time.Hour, false, true},
		"it stops at the first node": {"DaemonSet", `"x":0`,
			`"desiredNumberScheduled":9,"updatedNumberScheduled":1,"numberAvailable":8`, time.Hour, false, true},
		"a time far ahead": {"DaemonSet", `"x":0`, `"desiredNumberScheduled":9,"updatedNumberScheduled":1`, -time.Hour, false, false},
	} {
		w := new(target)
		if err := kube.Unmarshal([]byte(`{"metadata":{"generation":4},"spec":{`+c.spec+`,"template":{"metadata":{`+
			`"annotations":{"skiff.dev/reloaded-at":"`+start.Add(-c.ago).Format(time.RFC3339)+`"}}}},`+
			`"status":{`+c.status+`}}`), w); err != nil {
			t.Fatal(err)
		}
		if w.Status.ObservedGeneration == 0 {
			w.Status.ObservedGeneration = 4
		}
		if rolls, fails := w.progress(c.kind, false, start); rolls != c.rolls || fails != c.fails {
			t.Errorf("%s: rolls %t, fails %t", name, rolls, fails)
		}
	}
}
