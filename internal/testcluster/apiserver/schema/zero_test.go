package schema

import (
	"encoding/json"
	"testing"
)

// Rules: FS-39
func TestZeroValuesAreShownOrNotAsGoTypesDo(t *testing.T) {
	for _, c := range []struct{ apiVersion, kind, sent, want string }{
		// "", 0 and false are the same as nothing, unless the field is a pointer.
		{"v1", "Pod", `{"spec":{"hostNetwork":false,"nodeName":"","priority":0,"automountServiceAccountToken":false,` +
			`"containers":[{"name":"c","image":"","args":[],"env":[{"name":"E","value":""}]}]}}`,
			`{"metadata":{},"spec":{"automountServiceAccountToken":false,"containers":[{"env":[{"name":"E"}],` +
				`"name":"c","resources":{}}],"priority":0},"status":{}}`},
		// Times that are no pointers are shown as null, numbers and strings without omitempty as they are; quantities
		// have one form.
		{"v1", "Pod", `{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":0.5,"memory":"1024Mi"},` +
			`"requests":{}}}],"nodeSelector":{"k":""}},"status":{"conditions":[{"type":"Ready","status":"True"}],` +
			`"containerStatuses":[{"name":"c"}]}}`,
			`{"metadata":{},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"500m",` +
				`"memory":"1Gi"}}}],"nodeSelector":{"k":""}},` +
				`"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":null,"status":"True",` +
				`"type":"Ready"}],"containerStatuses":[{"image":"","imageID":"","lastState":{},"name":"c",` +
				`"ready":false,"restartCount":0,"state":{}}]}}`},
		// Times are in UTC, with seconds or with microseconds.
		{"coordination.k8s.io/v1", "Lease",
			`{"spec":{"renewTime":"2026-01-01T01:00:00.123456+01:00","holderIdentity":""}}`,
			`{"metadata":{},"spec":{"holderIdentity":"","renewTime":"2026-01-01T00:00:00.123456Z"}}`},
		{"v1", "Event", `{"firstTimestamp":"2026-01-01T00:00:00.5Z","involvedObject":{},"count":0}`,
			`{"eventTime":null,"firstTimestamp":"2026-01-01T00:00:00Z","involvedObject":{},"lastTimestamp":null,` +
				`"metadata":{},"reportingComponent":"","reportingInstance":"","source":{}}`},
		// A pointer without omitempty is null; an empty object stays where it is one.
		{"apps/v1", "Deployment", `{"spec":{"replicas":0,"paused":false,"strategy":null,` +
			`"template":{"spec":{"containers":null,"volumes":[{"name":"v","emptyDir":{}}]}}}}`,
			`{"metadata":{},"spec":{"replicas":0,"selector":null,"strategy":{},"template":{"metadata":{},` +
				`"spec":{"containers":null,"volumes":[{"emptyDir":{},"name":"v"}]}}},"status":{}}`},
	} {
		typ := For(c.apiVersion, c.kind)
		o := object(t, c.sent)
		typ.Drop(o)
		typ.Fill(o)
		got, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want {
			t.Errorf("%s\nbecame %s\nwant   %s", c.sent, got, c.want)
		}
	}
}
