package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

var owner = Owner{Resource: kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers",
	Kind: "WebServer"},
	Namespace: "default", Name: "web", UID: "u1"}

// deploymentBody is a desired Deployment; edit changes its spec.
func deploymentBody(o Owner, edit func(spec map[string]any)) map[string]any {
	labels := map[string]any{"app": "web"}
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx"}}}},
	}
	if edit != nil {
		edit(spec)
	}
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
		"metadata": map[string]any{"name": "web", "namespace": "default",
			"labels":          map[string]any{ManagedByLabel: ManagedBy},
			"ownerReferences": []any{o.Reference()}}}
}

// declaring returns an application to which Deployments can be declared, and their kind.
func declaring() (*application, *Kind) {
	e := New(nil, Own(), Kind{resource: deploymentsV1, apiVersion: deploymentsV1.APIVersion()})
	return e.application(owner, false), &e.kinds[0]
}

func TestHashFollowsWhatIsDeclared(t *testing.T) {
	a, kind := declaring()
	hash := func(edit func(map[string]any)) string {
		_, d, err := a.declare(&Child{Body: deploymentBody(owner, edit)})
		if err != nil {
			t.Fatal(err)
		}
		if body, err := d.post(kind); err != nil || len(d.hash) != 16 || !strings.Contains(string(body), `"annotations":{"`+HashAnnotation+`":"`+d.hash+`"`) {
			t.Errorf("hash %q of %s, %v", d.hash, body, err)
		}
		return d.hash
	}
	same := hash(nil)
	if hash(nil) != same {
		t.Error("the same state has two hashes")
	}
	if hash(func(s map[string]any) { s["replicas"] = int64(1) }) == same {
		t.Error("a field more does not change the hash")
	}
}

// Rules: WRT-25
func TestChildThatWouldNotBeOursIsRefusedBeforeItIsSent(t *testing.T) {
	a, _ := declaring()
	meta := func(edit func(map[string]any)) map[string]any {
		b := deploymentBody(owner, nil)
		m := maps.Clone(b["metadata"].(map[string]any))
		edit(m)
		b["metadata"] = m
		return b
	}
	for text, body := range map[string]map[string]any{
		"metadata.name is missing": meta(func(m map[string]any) { delete(m, "name") }),
		"in namespace \"other\"":   meta(func(m map[string]any) { m["namespace"] = "other" }),
		"does not declare its owner": meta(func(m map[string]any) {
			m["ownerReferences"] = []any{Owner{Resource: owner.Resource, Name: "web", UID: "u2"}.Reference()}
		}),
		"or declares another controller": meta(func(m map[string]any) {
			m["ownerReferences"] = []any{owner.Reference(), owner.Reference()}
		}),
		"more owners than its own": meta(func(m map[string]any) {
			m["ownerReferences"] = []any{owner.Reference(), map[string]any{"uid": "u2"}}
		}),
		"declare the label app.": meta(func(m map[string]any) { m["labels"] = map[string]any{"a": "b"} }),
	} {
		_, _, err := a.declare(&Child{Body: body})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got error %v, want one with %q", err, text)
		}
	}
}

// entryOf is one entry of managedFields.
func entryOf(manager, operation, subresource, fields string) kube.ManagedFields {
	return kube.ManagedFields{Manager: manager, Operation: operation, Subresource: subresource,
		FieldsV1: kube.Raw(fields)}
}

func TestUpdateEntryOfOursBecomesAnApplyEntry(t *testing.T) {
	var m managed
	m.Metadata.ResourceVersion = "7"
	m.Metadata.ManagedFields = []kube.ManagedFields{
		entryOf("kubectl", "Update", "", `{"f:spec":{"f:paused":{}}}`),
		entryOf(Manager, "Update", "status", `{"f:status":{}}`),
		entryOf(Manager, "Update", "", `{"f:spec":{"f:replicas":{}}}`),
	}
	owned, ops, err := upgrade(&m, Manager)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON(t, ops, `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},
		{"op":"test","path":"/metadata/managedFields/2/operation","value":"Update"},
		{"op":"replace","path":"/metadata/managedFields/2/operation","value":"Apply"}]`)
	if got := ownedOf(owned, []string{"paused", "replicas"}); len(got) != 1 || got[0] != "replicas" {
		t.Errorf("we own %v, want replicas alone", got)
	}
	m.Metadata.ManagedFields[2].Operation = "Apply"
	if _, ops, err = upgrade(&m, Manager); err != nil || ops != nil {
		t.Errorf("second time: operations %v, error %v, want none", ops, err)
	}
}

func TestSeveralEntriesOfOursBecomeOneThatOwnsAll(t *testing.T) {
	var m managed
	m.Metadata.ResourceVersion = "7"
	m.Metadata.ManagedFields = []kube.ManagedFields{
		entryOf(Manager, "Apply", "", `{"f:spec":{"f:a":{},"f:list":{"k:{\"name\":\"x\"}":{".":{},"f:v":{}}}}}`),
		entryOf("other", "Update", "", `{}`),
		entryOf(Manager, "Update", "", `{"f:spec":{"f:b":{},"f:list":{"k:{\"name\":\"x\"}":{"f:w":{}}}}}`),
		entryOf(Manager, "Update", "", `{"f:metadata":{"f:labels":{}}}`),
	}
	_, ops, err := upgrade(&m, Manager)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON(t, ops, `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},
		{"op":"test","path":"/metadata/managedFields/0/operation","value":"Apply"},
		{"op":"test","path":"/metadata/managedFields/2/operation","value":"Update"},
		{"op":"test","path":"/metadata/managedFields/3/operation","value":"Update"},
		{"op":"replace","path":"/metadata/managedFields/0/operation","value":"Apply"},
		{"op":"replace","path":"/metadata/managedFields/0/fieldsV1","value":
			{"f:metadata":{"f:labels":{}},"f:spec":{"f:a":{},"f:b":{},"f:list":{"k:{\"name\":\"x\"}":{".":{},"f:v":{},"f:w":{}}}}}},
		{"op":"remove","path":"/metadata/managedFields/3"},
		{"op":"remove","path":"/metadata/managedFields/2"}]`)
}

func wantJSON(t *testing.T, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	g, errG := patch.Decode(text)
	w, errW := patch.Decode([]byte(want))
	if errG != nil || errW != nil {
		t.Fatal(errG, errW)
	}
	if !patch.Equal(g, w) {
		t.Errorf("got %s\nwant %s", text, want)
	}
}

func TestFingerprintSeesWhatIsComparedAndNothingElse(t *testing.T) {
	want := declared{labels: map[string]any{"a": "", "ab": ""},
		plain: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"ab": "", "x": ""}}}}
	of := func(edit func(*Live[struct{ N int }])) uint64 {
		l := &Live[struct{ N int }]{Content: Content{Body: kube.Raw(`{"spec":{"a":1}}`)}}
		l.Labels = kube.Labels{{Key: "ab", Value: "c"}}
		l.OwnerReferences = []kube.OwnerReference{{UID: "u1", Controller: true}}
		if edit != nil {
			edit(l)
		}
		return fingerprint(&want, l)
	}
	plain := of(nil)
	for name, edit := range map[string]func(*Live[struct{ N int }]){
		"body":            func(l *Live[struct{ N int }]) { l.Body = kube.Raw(`{"spec":{"a":2}}`) },
		"label":           func(l *Live[struct{ N int }]) { l.Labels = kube.Labels{{Key: "a", Value: "bc"}} },
		"annotation":      func(l *Live[struct{ N int }]) { l.Annotations = kube.Labels{{Key: "x", Value: "y"}} },
		"label moved":     func(l *Live[struct{ N int }]) { l.Labels, l.Annotations = nil, l.Labels },
		"owner reference": func(l *Live[struct{ N int }]) { l.OwnerReferences = nil },
	} {
		if of(edit) == plain {
			t.Errorf("%s: not seen", name)
		}
	}
	if of(func(l *Live[struct{ N int }]) { l.ResourceVersion, l.Generation, l.Status.N = "9", 9, 9 }) != plain {
		t.Error("version, generation or status count, and each status update would be a comparison")
	}
	others := func(l *Live[struct{ N int }]) {
		l.Labels = append(l.Labels, kube.Label{Key: "others", Value: "1"})
		l.Annotations = kube.Labels{{Key: "deployment.kubernetes.io/revision", Value: "2"}}
	}
	if of(others) != plain {
		t.Error("labels and annotations of others count, and where the server drops what we declare each of their " +
			"changes would be an apply")
	}
}

// Rules: CCH-13, CCH-15, CCH-16
func TestTrustInAnAnswerEndsWithTheCacheOrWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w written
		seen := false
		began := time.Now()
		reached := func(namespace, rv string, written time.Time) bool {
			return seen && namespace == "default" && rv == "7" && !written.Before(began)
		}
		if w.trusted(reached) != fromCache || w.remaining() != 0 {
			t.Error("nothing was written, and the cache is not trusted")
		}
		answer := &Live[struct{}]{}
		answer.Namespace, answer.Name, answer.ResourceVersion = "default", "web", "7"
		w.set(answer)
		if w.trusted(reached) != fromAnswer || w.remaining() != firstTrust {
			t.Errorf("after a write: the answer is not trusted for %s", firstTrust)
		}
		wait := firstTrust
		for range 6 {
			time.Sleep(w.remaining())
			if w.trusted(reached) != fromServer {
				t.Fatal("an answer is trusted beyond its time")
			}
			w.set(answer)
			if wait = min(2*wait, maxTrust); w.remaining() != wait {
				t.Fatalf("a copy read anew is trusted for %s, want %s", w.remaining(), wait)
			}
		}
		seen = true
		if w.trusted(reached) != fromCache || w.remaining() != 0 {
			t.Error("the cache has caught up, and is not trusted")
		}
		w.set(answer)
		if w.remaining() != firstTrust {
			t.Error("the next write begins with a long trust")
		}
	})
}

// both runs a test with each patience, on a clock of its own.
func both(t *testing.T, test func(*testing.T, patience)) {
	t.Helper()
	for name, p := range map[string]patience{"changes": withChanges, "deletions": withDeletions} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, p) }) })
	}
}

func TestFightEndsInAPause(t *testing.T) {
	both(t, func(t *testing.T, p patience) {
		var c contest
		for range p.writes {
			if c.pause("h", p) != 0 {
				t.Fatal("a pause before the limit")
			}
			time.Sleep(time.Second)
			c.add("h", p)
		}
		if got, want := c.pause("h", p), p.window-time.Duration(p.writes-1)*time.Second; got != want {
			t.Errorf("pause %s, want %s", got, want)
		}
		if c.pause("other", p) != 0 {
			t.Error("a new desired state has to pause for the old one")
		}
		time.Sleep(p.window)
		if c.pause("h", p) != 0 {
			t.Error("the pause never ends")
		}
		c.add("h", p)
		if c.count != 1 {
			t.Errorf("count %d after the window, want 1", c.count)
		}
	})
}

func TestThePausesOfAFightThatGoesOnGetLonger(t *testing.T) {
	both(t, func(t *testing.T, p patience) {
		var c contest
		for range p.writes {
			c.add("h", p)
		}
		for want := p.window; want <= p.longest; want *= 2 {
			if got := c.pause("h", p); got != want {
				t.Errorf("pause %s, want %s", got, want)
			}
			time.Sleep(want + time.Second)
			c.add("h", p)
		}
		if got := c.pause("h", p); got != p.longest {
			t.Errorf("pause %s, want %s", got, p.longest)
		}
		time.Sleep(2 * p.longest)
		if c.add("h", p); c.pause("h", p) != 0 || c.count != 1 {
			t.Errorf("%d writes and a pause of %s when it was over, want one write and none", c.count,
				c.pause("h", p))
		}
		time.Sleep(p.window + time.Second)
		if c.add("h", p); c.pause("h", p) != 0 || c.window != p.window {
			t.Errorf("a pause of %s after few writes, in a window of %s", c.pause("h", p), c.window)
		}
	})
}

func TestEarlier(t *testing.T) {
	for _, test := range [][3]time.Duration{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3}} {
		if got := Earlier(test[0], test[1]); got != test[2] {
			t.Errorf("Earlier(%d, %d) = %d, want %d", test[0], test[1], got, test[2])
		}
	}
}

// Where resource versions cannot be compared, the mirror counts as having reached a write only while it shows just
// that version. What was written is expected then, as with the expectations of Kubernetes' own controllers: nothing
// is written twice meanwhile, a lost event blocks nothing for longer than the trust, and the owner's end clears it.
//
// Rules: CCH-14
func TestAWriteIsExpectedForAWhileWhereVersionsCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mirror := "opaque-1"
		reached := func(_, rv string, _ time.Time) bool {
			order, comparable := kube.CompareRV(mirror, rv)
			return comparable && order >= 0
		}
		answer := &Live[struct{}]{}
		answer.Namespace, answer.Name, answer.ResourceVersion = "default", "web", "opaque-7"
		var w written
		w.set(answer)
		for _, mirror = range []string{"opaque-1", "opaque-9", "opaque-6"} { // behind or ahead: that cannot be known
			if got := w.trusted(reached); got != fromAnswer {
				t.Errorf("the mirror is at %s and the copy is taken from source %d, not from the answer", mirror, got)
			}
		}
		time.Sleep(firstTrust)
		if w.trusted(reached) != fromServer {
			t.Error("the event is lost, and the answer is trusted for ever instead of a read")
		}
		mirror = "opaque-7"
		if w.trusted(reached) != fromCache {
			t.Error("the mirror shows what was written, and is not trusted")
		}

		e := New(nil, Own())
		owner := Owner{Namespace: "default", Name: "web", UID: "u1"}
		e.remembered(owner).children = []*memory{{written: w}}
		e.Forget(owner.Key())
		if len(e.remembered(owner).children) > 0 {
			t.Error("the expectation outlives its owner")
		}
	})
}

func TestTheRivalIsWhoOwnsTheFieldThatDiffers(t *testing.T) {
	entry := func(manager, subresource, at, fields string) kube.ManagedFields {
		return kube.ManagedFields{Manager: manager, Subresource: subresource, Time: at, FieldsV1: kube.Raw(fields)}
	}
	const image = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{}}}}}}}`
	all := []kube.ManagedFields{
		entry(Manager, "", "2026-01-01T00:00:09Z", image),
		entry("kube-controller-manager", "status", "2026-01-01T00:00:09Z", `{"f:status":{}}`),
		entry("kubectl-edit", "", "2026-01-01T00:00:05Z", image),
		entry("old", "", "2026-01-01T00:00:01Z", image),
		entry("labeler", "", "2026-01-01T00:00:07Z", `{"f:metadata":{"f:labels":{"f:app.example.com/x":{}}}}`),
		entry("broken", "", "2026-01-01T00:00:02Z", `{"f:`),
	}
	// in returns the difference from an object with "z" in the place of "x".
	in := func(text string) []patch.Difference {
		want, err := patch.Decode([]byte(text))
		live, errLive := patch.Decode([]byte(strings.ReplaceAll(text, `:"x"`, `:"z"`)))
		found, count := patch.Differences(patch.SchemaFor("apps/v1", "Deployment"), want, live, 1)
		if err := errors.Join(err, errLive); err != nil || count != 1 {
			t.Fatalf("%d differences in %s, %v", count, text, err)
		}
		return found
	}
	container := func(name, field string) string {
		return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,%q:"x"}]}}}}`, name, field)
	}
	for text, want := range map[string]string{
		container("web", "image"):                           "kubectl-edit",
		`{"metadata":{"labels":{"app.example.com/x":"x"}}}`: "labeler",
		container("db", "image"):                            "labeler", // unowned: the one that wrote last
		`{"spec":{"templates":"x"}}`:                        "labeler",
	} {
		if got := rivalOf(all, Manager, in(text)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got := rivalOf(all[:2], Manager, in(`{"spec":{"replicas":"x"}}`)); got != "" {
		t.Errorf("without another manager: %q", got)
	}
}

func TestAStatusPatchHoldsWhatDiffersAndTheFirstOneAll(t *testing.T) {
	type Inner struct {
		Generation int `json:"generation"`
	}
	type status struct {
		Inner
		Replicas int        `json:"replicas"`
		Port     *int       `json:"port"`
		At       *time.Time `json:"at"`
		Members  []string   `json:"members"`
	}
	noon, port := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 80
	elsewhere := noon.In(time.FixedZone("", 0))
	before := status{Inner: Inner{1}, Replicas: 2, Port: &port, At: &noon, Members: []string{"a"}}
	after := before
	after.Generation, after.Port, after.At = 2, nil, &elsewhere
	for name, test := range map[string]struct {
		before, after status
		want          string
	}{
		"the first": {status{}, status{Members: []string{}},
			`{"generation":0,"replicas":0,"port":null,"at":null,"members":[]}`},
		"another":                       {before, after, `{"generation":2,"port":null}`},
		"the same time in another zone": {status{At: &noon}, status{At: &elsewhere}, ""},
	} {
		if got, err := statusPatch(test.before, test.after); err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
		}
	}
}
