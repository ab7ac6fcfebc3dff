package restart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/kube"
)

// digests are the values of a source.
func digests(pairs ...string) (all []kube.NamedDigest) {
	for i := 0; i < len(pairs); i += 2 {
		one := kube.NamedDigest{Name: pairs[i]}
		copy(one.Digest[:], pairs[i+1])
		all = append(all, one)
	}
	return all
}

func TestBadConfigSourcesAreRefusedWithTheField(t *testing.T) {
	for source, want := range map[string]string{
		`"configMaps":[{"keys":["a"]}]`:                              "spec.source.configMaps[0]: exactly one of name and selector",
		`"configMaps":[{"selector":{}}]`:                             "spec.source.configMaps[0]: exactly one of name and selector",
		`"secrets":[{"name":"a"},{"name":"b","selector":` + anApp:    "spec.source.secrets[1]: exactly one of name and selector",
		`"secrets":[{"name":"a/b"}]`:                                 `spec.source.secrets[0].name: "a/b" is not the name of a secret`,
		`"secrets":[{"name":"a","keys":["x","y z"]}]`:                `spec.source.secrets[0].keys: "y z" is not a key`,
		`"configMaps":[{"selector":{"matchExpressions":` + notThere:  "spec.source.configMaps[0].selector: would match every",
		`"configMaps":[{"name":"a"}],"namespace":"other"`:            "spec.source.namespace: ConfigMaps and Secrets of another",
		`"configMaps":[{"name":"a"}],"selector":` + badSelector:      "spec.source.selector: would match every pod",
		`"configMaps":[{"name":"a","keys":["` + many(51, `","`):      "spec.source.configMaps[0].keys: at most 50, there are 51",
		`"secrets":[{"name":"` + many(51, `"},{"name":"`):            "spec.source.secrets: at most 50 items, there are 51",
		`"configMaps":[],"secrets":[]`:                               "spec.source.selector: must not be empty",
		`"configMaps":[{"name":"a"}],"reasons":["ConfigChangd"]`:     "spec.source.reasons: \"ConfigChangd\" is none of",
		`"configMaps":[{"name":"a"}],"reasons":["ConfigChanged"]`:    "",
		`"configMaps":[{"name":"a"}],"namespace":"default"`:          "",
		`"secrets":[{"selector":` + anApp + `,"configMaps":[]`:       "",
		`"secrets":[{"name":"a","keys":["b"]}],"selector":` + someOf: "",
	} {
		_, err := newRule(triggerOf(t, `"source":{`+source+`},`+toPredixy))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%.200s: %v, want %q", source, err, want)
		}
	}
}

const (
	someOf      = `{"matchLabels":{"app":"a"}}`
	anApp       = someOf + `}]`
	badSelector = `{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}`
	notThere    = `[{"key":"a","operator":"DoesNotExist"}]}}]`
)

// many are n names with separators, and the end of a list of objects.
func many(n int, separator string) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("n", i))
	}
	end := `"}]`
	if !strings.Contains(separator, "{") {
		end = `"]}]`
	}
	return strings.Join(names, separator) + end
}

// there is a source as found, with keys that count.
func there(name string, keys []string, pairs ...string) config {
	if keys == nil {
		keys = []string{""}
	}
	return config{name: name, keys: keys, there: true, born: noon, values: digests(pairs...)}
}

func TestWhatHappenedToASource(t *testing.T) {
	one := func(keys ...string) config { return there("configmap/app", keys, "a", "1", "b", "1") }
	two := func(keys ...string) config { return there("configmap/app", keys, "a", "2", "b", "1") }
	bare := func(keys ...string) config { return there("configmap/app", keys, "b", "1") }
	gone := func(keys ...string) config {
		if keys == nil {
			keys = []string{""}
		}
		return config{name: "configmap/app", keys: keys}
	}
	a, b := []string{"a"}, []string{"b"}
	for name, row := range map[string]struct {
		was, is []config
		want    string // the notes; "": no change
	}{
		"the same":                {[]config{one()}, []config{one()}, ""},
		"another value":           {[]config{one()}, []config{two()}, "configmap app changed (a)"},
		"a key less":              {[]config{one()}, []config{bare()}, "configmap app changed (a)"},
		"a key more":              {[]config{bare()}, []config{one()}, "configmap app changed (a)"},
		"the key that counts":     {[]config{one(a...)}, []config{two(a...)}, "configmap app changed (a)"},
		"another key":             {[]config{one(b...)}, []config{two(b...)}, ""},
		"the key is gone":         {[]config{one(a...)}, []config{bare(a...)}, ""},
		"the key appears":         {[]config{bare(a...)}, []config{one(a...)}, "configmap app changed (a)"},
		"deleted":                 {[]config{one()}, []config{gone()}, ""},
		"appears":                 {[]config{gone()}, []config{one()}, "configmap app is new"},
		"appears with the key":    {[]config{gone(a...)}, []config{one(a...)}, "configmap app changed (a)"},
		"appears without the key": {[]config{gone(a...)}, []config{bare(a...)}, ""},
		"one more for the selector": {[]config{one()}, []config{one(), there("secret/new", nil)},
			"secret new is new"},
		"one less for the selector": {[]config{one(), there("secret/new", nil)}, []config{one()}, ""},
		"two at once, each with its keys": {[]config{one(), there("secret/s", nil, "x", "1")},
			[]config{two(), there("secret/s", nil, "x", "2")}, "configmap app changed (a), secret s changed (x)"},
	} {
		r := ruleOf(t, `"source":{"configMaps":[{"name":"app"}]},`+toPredixy)
		later := noon.Add(time.Hour)
		known, changes := noticeConfigs(r, configDigest{}, row.was, nil, later)
		if len(changes) > 0 {
			t.Errorf("%s: at first: %v", name, changes)
		}
		before := map[string][]kube.NamedDigest{}
		for _, c := range row.was {
			before[c.name] = c.values
		}
		known = decodeConfigs(known.encode()) // as the next process reads it
		next, changes := noticeConfigs(r, known, row.is, before, later)
		var notes []string
		for _, c := range changes {
			if c.Reason != ConfigChanged || c.Source == "" || c.Pod != "" {
				t.Errorf("%s: change %+v", name, c)
			}
			notes = append(notes, c.Note)
		}
		if got := strings.Join(notes, ", "); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
		again, changes := noticeConfigs(r, next, row.is, nil, later)
		if len(changes) > 0 || !maps.Equal(again.hashes, next.hashes) {
			t.Errorf("%s: once more: %v, %v became %v", name, changes, next, again)
		}
		// What is as at first again, is no change where there was none.
		if _, changes := noticeConfigs(r, next, row.was, nil, later); row.want == "" && len(changes) > 0 {
			t.Errorf("%s: back again: %v", name, changes)
		}
	}
}

func TestAChangedSpecIsNoChangeOfItsSources(t *testing.T) {
	r := ruleOf(t, `"source":{"configMaps":[{"name":"app"}]},`+toPredixy)
	other := ruleOf(t, `"source":{"configMaps":[{"name":"app"},{"name":"more"}]},`+toPredixy)
	app, more := there("configmap/app", nil, "a", "1"), there("configmap/more", nil, "a", "1")
	changed := there("configmap/app", nil, "a", "2")
	known, _ := noticeConfigs(r, configDigest{}, []config{app}, nil, noon)
	if _, changes := noticeConfigs(other, known, []config{app, more}, nil, noon.Add(time.Hour)); len(changes) > 0 {
		t.Errorf("a source more in the spec: %v", changes)
	}
	// The content of a source that stays is known.
	_, changes := noticeConfigs(other, known, []config{changed, more}, nil, noon.Add(time.Hour))
	if len(changes) != 1 {
		t.Errorf("a change together with a source more in the spec: %v", changes)
	}
}

// The watches of triggers and of ConfigMaps are not in step.
func TestASourceOlderThanANewTriggerIsSeenLateAndNoChange(t *testing.T) {
	r := ruleOf(t, `"source":{"configMaps":[{"name":"app"}]},`+toPredixy)
	missing := []config{{name: "configmap/app", keys: []string{""}}}
	known, _ := noticeConfigs(r, configDigest{}, missing, nil, noon)
	for name, row := range map[string]struct {
		born, now time.Time
		want      int
	}{
		"older, at once":   {noon.Add(-time.Hour), noon.Add(time.Second), 0},
		"older, later":     {noon.Add(-time.Hour), noon.Add(time.Hour), 1},
		"younger, at once": {noon.Add(time.Second), noon.Add(2 * time.Second), 1},
	} {
		r.born = noon
		app := there("configmap/app", nil, "a", "1")
		app.born = row.born
		if _, changes := noticeConfigs(r, known, []config{app}, nil, row.now); len(changes) != row.want {
			t.Errorf("%s: %v", name, changes)
		}
	}
}

func TestTheConfigDigestIsBounded(t *testing.T) {
	r := ruleOf(t, `"source":{"secrets":[{"selector":`+anApp+`},`+toPredixy)
	var all []config
	for i := range 150 {
		all = append(all, there(fmt.Sprintf("secret/s-%03d", i), []string{"a", "b"}, "a", "1", "b", "1"))
	}
	within, count := bounded(all)
	if count != 300 || len(within) != 100 {
		t.Errorf("%d of %d", len(within), count)
	}
	all[99].keys = []string{"a", "b", "c"}
	if within, _ := bounded(all); len(within[99].keys) != 2 || len(within) != 100 {
		t.Errorf("%d, the last with %d keys", len(within), len(within[99].keys))
	}
	known, _ := noticeConfigs(r, configDigest{}, within, nil, noon)
	for i := range 100 { // generation after generation under new names
		known, _ = noticeConfigs(r, known, []config{there(fmt.Sprintf("secret/g-%d", i), nil, "a", "1")}, nil, noon)
		if n := len(known.hashes); n > maxConfigs+maxGone {
			t.Fatalf("%d hashes", n)
		}
	}
	if n := len(known.hashes); n > maxGone+1 {
		t.Errorf("%d hashes are left", n)
	}
}

func TestATextThatIsNoConfigDigestKnowsNothing(t *testing.T) {
	for _, text := range []string{"", "v1", "v2 x a=b", "v1 x a", "v2 abc - +"} {
		if d := decodeConfigs(text); d.id != "" || len(d.hashes) > 0 {
			t.Errorf("%q: %+v", text, d)
		}
	}
}

// A key of a Secret tells no more of its value in many triggers than in one.
func TestAllTriggersOfANamespaceHaveTheSameHash(t *testing.T) {
	one := ruleOf(t, `"source":{"secrets":[{"name":"s"}]},`+toPredixy)
	two := ruleOf(t, `"source":{"secrets":[{"name":"s"},{"name":"t"}]},`+toPredixy)
	two.salt = "another"
	found := []config{there("secret/s", nil, "a", "1")}
	a, _ := noticeConfigs(one, configDigest{}, found, nil, noon)
	b, _ := noticeConfigs(two, configDigest{}, found, nil, noon)
	want := sources.Hash("default", "secret/s", "", digests("a", "1"))
	if got := []string{a.hashes["secret/s"], b.hashes["secret/s"]}; !slices.Equal(got, []string{want, want}) {
		t.Errorf("%q, want %q", got, want)
	}
}
