package reload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// surveyed returns the survey of one workload beside the ConfigMaps app, app-prod, db.conf and cfg and the Secret tls,
// of which some have annotations. The workload's containers see cfg and tls.
func surveyed(t *testing.T, kind string, workload, template map[string]string,
	sources map[string]map[string]string) *survey {
	s := newSurvey(true)
	for _, source := range []string{"configmap/app", "configmap/app-prod", "configmap/db.conf", "configmap/cfg",
		"secret/tls"} {
		kind, name, _ := strings.Cut(source, "/")
		s.source(kind, &kube.Meta{Namespace: "default", Name: name}, labels(sources[source]))
	}
	c := theirCase{Name: "surveyed", Refers: []string{"configmap/cfg", "secret/tls"}}
	w := c.workload(t)
	w.Annotations, w.Spec.Template.Metadata.Annotations = labels(workload), labels(template)
	s.workload(kind, w)
	s.finish()
	s.sort()
	return s
}

// findings returns the findings as "reason annotation -> meant", with a dash in front of what is only good to know and
// "template:" in front of an annotation of the pod template.
func findings(all ...[]Surveyed) (out []string) {
	for _, o := range slices.Concat(all...) {
		for _, f := range o.Findings {
			text := f.Reason + " "
			if !f.Wrong {
				text = "-" + text
			}
			if f.Template {
				text += "template:"
			}
			if text += f.Annotation; f.Meant != "" {
				text += " -> " + f.Meant
			}
			out = append(out, text)
		}
	}
	return out
}

type texts = map[string]string

func TestEachTypingErrorIsFound(t *testing.T) {
	list, secretList, on := listOf("configmap"), listOf("secret"), "true"
	for _, c := range []struct {
		name               string
		kind               string // "": Deployment
		workload, template texts
		source             texts // annotations of the ConfigMap cfg
		want               []string
	}{
		{name: "nothing", workload: texts{theirAuto: "true", "example.com/reload": "x",
			"forecastle.stakater.com/expose": "true", "reload.example.com/auto": "true",
			"mistake.example.com/reload": "x", "deployment.kubernetes.io/revision": "1"}},
		{name: "no time", workload: texts{theirAuto: on}, source: texts{ResumeAnnotation: "yesterday"},
			want: []string{"WrongValue skiff.dev/reload-resume"}},
		{name: "a time", workload: texts{theirAuto: on}, source: texts{ResumeAnnotation: "2026-11-29T12:00:00Z"}},
		{name: "capitals", workload: texts{"reloader.stakater.com/Auto": on},
			want: []string{"UnknownAnnotation reloader.stakater.com/Auto -> reloader.stakater.com/auto"}},
		{name: "plural", workload: texts{"configmaps.reloader.stakater.com/reload": "app"}, want: []string{
			"UnknownAnnotation configmaps.reloader.stakater.com/reload -> configmap.reloader.stakater.com/reload"}},
		{name: "singular", workload: texts{theirAuto: on, "configmap.exclude.reloader.stakater.com/reload": "app"},
			want: []string{"UnknownAnnotation configmap.exclude.reloader.stakater.com/reload -> " +
				"configmaps.exclude.reloader.stakater.com/reload"}},
		{name: "without the kind", workload: texts{"reloader.stakater.com/reload": "app"}, want: []string{
			"UnknownAnnotation reloader.stakater.com/reload -> configmap.reloader.stakater.com/reload"}},
		{name: "a domain like Reloader's", workload: texts{"reloader.stakatar.com/auto": on},
			template: texts{"reloader.stackater.com": on, "relaoder.stakater.com/auto": on},
			want: []string{"UnknownAnnotation reloader.stakatar.com/auto -> reloader.stakater.com/auto",
				"UnknownAnnotation template:relaoder.stakater.com/auto -> reloader.stakater.com/auto",
				"UnknownAnnotation template:reloader.stackater.com"}},
		{name: "turned around", workload: texts{"stakater.com/reloader": on},
			want: []string{"UnknownAnnotation stakater.com/reloader"}},
		{name: "a domain like skiff's", workload: texts{"skif.dev/reload": "auto"},
			want: []string{"UnknownAnnotation skif.dev/reload -> skiff.dev/reload"}},
		{name: "skiff's names", workload: texts{"skiff.dev/reload-configmap": "app", "skiff.dev/restart": "auto"},
			want: []string{"UnknownAnnotation skiff.dev/reload-configmap -> skiff.dev/reload-configmaps",
				"UnknownAnnotation skiff.dev/restart"}},
		{name: "skiff's on the template", template: texts{AutoAnnotation: "auto"},
			want: []string{"WrongPlace template:skiff.dev/reload"}},
		{name: "auto on a ConfigMap", source: texts{theirAuto: on},
			want: []string{"WrongPlace reloader.stakater.com/auto"}},
		{name: "match on a workload", workload: texts{theirMatch: on},
			want: []string{"WrongPlace reloader.stakater.com/match"}},
		{name: "exclude on the template", template: texts{theirAuto: on, excludeOf("configmap"): "app"},
			want: []string{"WrongPlace template:configmaps.exclude.reloader.stakater.com/reload"}},
		{name: "pause-period of another kind", kind: "StatefulSet", workload: texts{theirAuto: on, theirPause: "5m"},
			want: []string{"WrongPlace deployment.reloader.stakater.com/pause-period"}},
		{name: "what skiff does not have", workload: texts{theirAuto: on, theirOthers[0]: "restart"},
			want: []string{"-NotInSkiff secretproviderclass.reloader.stakater.com/auto"}},
		{name: "a Rollout's strategy", kind: "Rollout", workload: texts{theirAuto: on, theirStrategy: "Restart"},
			want: []string{"InvalidAnnotation reloader.stakater.com/rollout-strategy"}},
		{name: "a strategy of another kind", workload: texts{theirAuto: on, theirStrategy: "restart",
			StrategyAnnotation: "restart"}, want: []string{"WrongPlace reloader.stakater.com/rollout-strategy",
			"WrongPlace skiff.dev/reload-strategy"}},
		{name: "what controllers write", workload: texts{theirAuto: on, StateAnnotation: "{}",
			StateAnnotation + "-1a2b3c4d": "{}", theirPausedAt: "x"},
			template: texts{RestartAnnotation: "x", theirReloadedFrom: "{}"}},
		{name: "auto", workload: texts{theirAuto: "yes", autoOf("secret"): "True "},
			want: []string{"WrongValue reloader.stakater.com/auto -> true",
				"WrongValue secret.reloader.stakater.com/auto -> true"}},
		{name: "auto on the template", template: texts{theirAuto: "ja"},
			want: []string{"WrongValue template:reloader.stakater.com/auto"}},
		{name: "auto that is off", workload: texts{theirAuto: "False", autoOf("secret"): "no"}},
		{name: "search", workload: texts{theirSearch: "True"},
			want: []string{"WrongValue reloader.stakater.com/search -> true"}},
		{name: "match", source: texts{theirMatch: "1"}, want: []string{
			"WrongValue reloader.stakater.com/match -> true"}},
		{name: "ignore", source: texts{theirIgnore: " true"}, want: []string{
			"WrongValue reloader.stakater.com/ignore -> true"}},
		{name: "skiff's auto", workload: texts{AutoAnnotation: "true"},
			want: []string{"InvalidAnnotation skiff.dev/reload -> auto"}},
		{name: "skiff's cooldown", workload: texts{AutoAnnotation: "auto", CooldownAnnotation: "5 min"},
			want: []string{"InvalidAnnotation skiff.dev/reload-cooldown"}},
		{name: "skiff's lists", workload: texts{ConfigMapsAnnotation: "aap,db.conf:x", SecretsAnnotation: "tsl"},
			want: []string{"NoSource skiff.dev/reload-configmaps -> app", "NoSource skiff.dev/reload-secrets -> tls"}},
		{name: "skiff's order", workload: texts{AutoAnnotation: "auto",
			AfterAnnotation: "deployment/db,deploy/surveyed"},
			want: []string{"NoWorkload skiff.dev/reload-after", "NoWorkload skiff.dev/reload-after"}},
		{name: "skiff's alone", workload: texts{CooldownAnnotation: "5m"},
			want: []string{"NoEffect skiff.dev/reload-cooldown"}},
		{name: "skiff's pause", workload: texts{AutoAnnotation: "auto", "skiff.dev/paused": "yes"},
			want: []string{"WrongValue skiff.dev/paused -> true"}},
		{name: "a list", workload: texts{list: "app,aap", secretList: "tls"}, want: []string{"NoSource " + list +
			" -> app"}},
		{name: "a list with a dot", workload: texts{list: "db.conf,db.cnf"},
			want: []string{"NoSource " + list + " -> db.conf"}},
		{name: "a list on the template", template: texts{list: "App"},
			want: []string{"NoName template:" + list + " -> app"}},
		{name: "other separators", workload: texts{list: "app cfg,app;cfg,default/app,cfg:key"},
			want: []string{"NoName " + list, "NoName " + list, "NoName " + list + " -> app", "NoName " + list}},
		{name: "a glob", workload: texts{list: "app-*,*-prod,ap-*,cf*"}, want: []string{"-Glob " + list + " -> app-.*",
			"Glob " + list + " -> ap-.*", "Glob " + list + " -> cf.*"}},
		{name: "expressions", workload: texts{list: "app-.*,x|y.+"},
			want: []string{"-MatchesNothing " + list}},
		{name: "an invalid expression", workload: texts{list: "app,[", secretList: "**"},
			want: []string{"InvalidAnnotation " + list, "InvalidAnnotation " + secretList}},
		{name: "an invalid expression on the template", template: texts{list: "["},
			want: []string{"InvalidAnnotation template:" + list}},
		{name: "an invalid pause-period", workload: texts{theirAuto: on, theirPause: "5 m"},
			want: []string{"InvalidAnnotation deployment.reloader.stakater.com/pause-period"}},
		{name: "an excluded name", workload: texts{theirAuto: on, excludeOf("configmap"): "cgf,app.*"},
			want: []string{"NoSource " + excludeOf("configmap") + " -> cfg",
				"NoSource " + excludeOf("configmap") + " -> app"}},
		{name: "excluded and listed", workload: texts{list: "app", excludeOf("configmap"): "app"},
			want: []string{"-LeftOut " + list}},
		{name: "ignored and listed", workload: texts{list: "cfg"}, source: texts{theirIgnore: on},
			want: []string{"-LeftOut " + list}},
		{name: "modifiers alone", workload: texts{theirPause: "5m", excludeOf("secret"): "tls"}, want: []string{
			"NoEffect " + excludeOf("secret"), "NoEffect " + theirPause}},
		{name: "a search that finds", workload: texts{theirSearch: on}, source: texts{theirMatch: on}},
		{name: "a search that finds nothing", workload: texts{theirSearch: on},
			want: []string{"SearchFindsNothing " + theirSearch}},
		{name: "a search on the template", template: texts{theirSearch: on},
			want: []string{"SearchFindsNothing template:" + theirSearch}},
		{name: "a match that nobody finds", workload: texts{theirAuto: on}, source: texts{theirMatch: on},
			want: []string{"UnusedMatch " + theirMatch}},
		{name: "the template behind the workload", workload: texts{theirAuto: "false"},
			template: texts{theirAuto: on, list: "app"}, want: []string{"Shadowed template:" + list,
				"Shadowed template:" + theirAuto}},
		{name: "the same on both", workload: texts{theirAuto: on}, template: texts{theirAuto: on}},
		{name: "the template behind the workload for a kind", workload: texts{autoOf("secret"): on},
			template: texts{theirAuto: on}, want: []string{"-PartlyShadowed template:" + theirAuto}},
	} {
		kind := c.kind
		if kind == "" {
			kind = "Deployment"
		}
		s := surveyed(t, kind, c.workload, c.template, map[string]texts{"configmap/cfg": c.source})
		if got := findings(s.Workloads, s.Sources); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
		wrong := len(slices.DeleteFunc(slices.Clone(c.want), func(w string) bool { return w[0] == '-' }))
		if s.Wrong != wrong || s.OK() != (wrong == 0) {
			t.Errorf("%s: %d are wrong, want %d", c.name, s.Wrong, wrong)
		}
	}
}

func TestASurveySaysForWhatAWorkloadRestartsAndWhy(t *testing.T) {
	list := listOf("configmap")
	for name, c := range map[string]struct {
		workload, template texts
		want               string
	}{
		"auto": {texts{theirAuto: "true"}, nil,
			"configmap/cfg by " + theirAuto + "; secret/tls by " + theirAuto},
		"typed, on the template": {nil, texts{autoOf("secret"): "true"}, "secret/tls by " + autoOf("secret")},
		"a list": {texts{list: "app.*,gone"}, nil,
			"configmap/app by " + list + "; configmap/app-prod by " + list + "; configmap/gone? by " + list},
		"both": {texts{AutoAnnotation: "auto", theirAuto: "1", SecretsAnnotation: "tls:key"}, nil,
			"configmap/cfg by " + theirAuto + " " + AutoAnnotation + "; secret/tls by " + theirAuto + " " +
				AutoAnnotation + " " + SecretsAnnotation},
		"excluded": {texts{theirAuto: "true", excludeOf("secret"): "tls"}, nil, "configmap/cfg by " + theirAuto},
		"off":      {texts{theirAuto: "false"}, nil, ""},
	} {
		s := surveyed(t, "Deployment", c.workload, c.template, nil)
		var got []string
		for _, o := range s.Workloads {
			for _, e := range o.Entries {
				text := e.Entry
				if e.Missing {
					text += "?"
				}
				got = append(got, text+" by "+strings.Join(e.From, " "))
			}
		}
		if strings.Join(got, "; ") != c.want || s.Looked != 1 || s.Restarts != min(1, len(got)) {
			t.Errorf("%s:\ngot  %q, %d of %d\nwant %q", name, got, s.Restarts, s.Looked, c.want)
		}
	}
}

// The survey says an annotation for each entry of all the cases that were run through Reloader.
func TestEachEntryHasAnAnnotation(t *testing.T) {
	file, err := os.ReadFile("testdata/reloader-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []theirCase
	if err := json.Unmarshal(file, &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Kind == "CronJob" || c.Kind == "Job" {
			continue
		}
		s := newSurvey(true)
		kind, name, _ := strings.Cut(c.Source, "/")
		s.source(kind, &kube.Meta{Namespace: "default", Name: name}, labels(c.Annotations))
		w := c.workload(t)
		s.workload("Deployment", w)
		entries := wanted(w, "Deployment", map[string]head{c.Source: headOf(labels(c.Annotations))}).entries
		if len(s.Workloads) == 0 {
			s.Workloads = []Surveyed{{}}
		}
		if got := s.Workloads[0].Entries; len(got) != len(entries) {
			t.Errorf("%s: entries %v, want %v", c.Name, got, entries)
		}
		for _, e := range s.Workloads[0].Entries {
			if len(e.From) == 0 {
				t.Errorf("%s: no annotation for %s", c.Name, e.Entry)
			}
		}
	}
}

func TestASurveyWithoutReloaderLooksAtSkiffsAnnotationsAlone(t *testing.T) {
	s := newSurvey(false)
	c := theirCase{Refers: []string{"configmap/cfg"}}
	w := c.workload(t)
	w.Annotations = labels(texts{theirAuto: "yes", "reloader.stakater.com/Auto": "true", "skiff.dev/relaod": "auto"})
	s.source("configmap", &kube.Meta{Namespace: "default", Name: "cfg"}, labels(texts{theirMatch: "1"}))
	s.workload("Deployment", w)
	s.finish()
	if got := findings(s.Workloads, s.Sources); !slices.Equal(got,
		[]string{"UnknownAnnotation skiff.dev/relaod -> skiff.dev/reload"}) {
		t.Errorf("got %q", got)
	}
}

func TestWhatCannotBeListedIsNotSaidToBeMissing(t *testing.T) {
	s := newSurvey(true)
	s.blind["/secret"], s.blind["default/workloads"] = true, true
	s.source("configmap", &kube.Meta{Namespace: "default", Name: "cfg"}, labels(texts{theirMatch: "true"}))
	w := (&theirCase{}).workload(t)
	w.Annotations = labels(texts{listOf("secret"): "gone,x-*", listOf("configmap"): "gone",
		AfterAnnotation: "deployment/db"})
	s.workload("Deployment", w)
	s.finish()
	if got := findings(s.Workloads, s.Sources); !slices.Equal(got, []string{"NoSource " + listOf("configmap")}) {
		t.Errorf("got %q", got)
	}
}

func TestASurveyIsBoundedWhateverTheAnnotationsAre(t *testing.T) {
	many, values := texts{}, texts{theirAuto: "\x1b[31myes\u202e"}
	for i := range 10_000 {
		many[fmt.Sprintf("reloader.stakater.com/%d", i)] = "true"
	}
	many["reloader.stakater.com/\x1b[31m\u202e"] = "true"
	values[listOf("configmap")] = strings.Repeat("(a|b)*", 2000) + "," + strings.Repeat("x", 10_000) + ",[\x1b[31m," +
		strings.Repeat("q*,", 3000)
	s := newSurvey(true)
	for i := range 5000 {
		s.source("configmap", &kube.Meta{Namespace: "default", Name: fmt.Sprintf("%s-%d", strings.Repeat("a", 60), i)},
			nil)
	}
	s.source("secret", &kube.Meta{Namespace: "default", Name: "\x1b]0;x"}, labels(texts{theirAuto: "true"}))
	began := time.Now()
	for i, annotations := range []texts{many, values} {
		w := (&theirCase{Refers: []string{"secret/\x1b[2J"}}).workload(t)
		w.Name, w.Annotations = fmt.Sprint("w\u009b", i), labels(annotations)
		s.workload("Deployment", w)
	}
	s.finish()
	s.sort()
	if took := time.Since(began); took > 20*time.Second { // with the race detector, beside others
		t.Errorf("it took %s", took)
	}
	if len(s.Workloads) != 2 || s.Wrong < 10_000 {
		t.Fatalf("%d workloads, %d wrong", len(s.Workloads), s.Wrong)
	}
	for _, o := range slices.Concat(s.Workloads, s.Sources) {
		text, err := json.Marshal(o)
		if err != nil || len(text) > 64<<10 || len(o.Findings) > maxFindings {
			t.Errorf("%s has %d bytes, %d findings: %v", o.Name, len(text), len(o.Findings), err)
		}
		for _, r := range string(text) {
			if !unicode.IsGraphic(r) {
				t.Fatalf("%q is in %.200s", r, text)
			}
		}
	}
}

func TestASurveyFindsACircle(t *testing.T) {
	s := newSurvey(false)
	for name, after := range map[string]string{"a": "deployment/b", "b": "deployment/c", "c": "deployment/a",
		"d": "deployment/a", "self": "deployment/self"} {
		w := workloadOf(t, map[string]string{AutoAnnotation: "auto", AfterAnnotation: after}, `{}`)
		w.Namespace, w.Name = "default", name
		s.workload("Deployment", w)
	}
	s.finish()
	s.sort()
	var circular []string
	for _, o := range s.Workloads {
		for _, f := range o.Findings {
			if f.Reason == circle && f.Wrong && f.Annotation == AfterAnnotation {
				circular = append(circular, o.Name)
			}
		}
	}
	if want := []string{"a", "b", "c", "self"}; !slices.Equal(circular, want) {
		t.Errorf("in a circle are %v, want %v", circular, want)
	}
}

func TestASurveySaysThatAWorkloadHasNoPods(t *testing.T) {
	for text, want := range map[string][]string{`{"replicas":0}`: {"-NoPods "}, `{"replicas":1}`: nil, `{}`: nil} {
		s, w := newSurvey(false), new(surveyedWorkload)
		if err := kube.Unmarshal([]byte(`{"metadata":{"name":"web","namespace":"default","annotations":{`+
			`"skiff.dev/reload-configmaps":"a"}},"spec":`+text+`}`), w); err != nil {
			t.Fatal(err)
		}
		s.source("configmap", &kube.Meta{Namespace: "default", Name: "a"}, nil)
		s.workload("Deployment", w.target())
		if got := findings(s.Workloads); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// One tenant's long names do not use up the time of the survey.
func TestASurveyComparesNamesWithinTheBudgetOfANamespace(t *testing.T) {
	s := newSurvey(false)
	name := func(i int) string { return fmt.Sprintf("%s%04d", strings.Repeat("ab", 47), i) }
	for i := range maxAsked - 10 {
		s.source("configmap", &kube.Meta{Namespace: "hostile", Name: name(i)}, nil)
	}
	s.source("configmap", &kube.Meta{Namespace: "other", Name: "settings"}, nil)
	var wrong []string
	for i := range maxSources {
		wrong = append(wrong, name(i)+"x")
	}
	for i := range 20 {
		w := workloadOf(t, map[string]string{ConfigMapsAnnotation: strings.Join(wrong, ",")}, `{}`)
		w.Namespace, w.Name = "hostile", fmt.Sprint("w", i)
		s.workload("Deployment", w)
	}
	w := workloadOf(t, map[string]string{ConfigMapsAnnotation: "setings"}, `{}`)
	w.Namespace = "other"
	s.workload("Deployment", w)
	meant := map[string]int{}
	for _, o := range s.Workloads {
		for _, f := range o.Findings {
			if f.Meant != "" {
				meant[o.Namespace]++
			}
		}
	}
	if n := meant["hostile"]; n == 0 || n > maxCompared/(maxAsked*98*98)+1 || meant["other"] != 1 {
		t.Errorf("suggestions by namespace: %v", meant)
	}
	if len(s.Workloads) != 21 || s.Wrong != 20*maxSources+1 {
		t.Errorf("%d workloads, %d wrong", len(s.Workloads), s.Wrong)
	}
}

func TestASurveyOmitsWhatIsBeyondItsRoom(t *testing.T) {
	s := newSurvey(true)
	s.room = 1000
	for i := range 100 {
		w := (&theirCase{}).workload(t)
		w.Name, w.Annotations = fmt.Sprint("w", i), labels(texts{theirAuto: "yes"})
		s.workload("Deployment", w)
	}
	if n := len(s.Workloads); n == 0 || n > 10 || s.Omitted != 100-n || s.Wrong != 100 || s.OK() {
		t.Errorf("%d are listed, %d omitted, %d wrong", n, s.Omitted, s.Wrong)
	}
}

func TestAnObjectThatCannotBeReadIsNamed(t *testing.T) {
	s := newSurvey(true)
	bad := &kube.DecodeError{Key: kube.Key{Namespace: "default", Name: "large"}, Err: kube.ErrTooLarge}
	s.broken("Secret", bad)
	s.broken("Deployment", bad)
	w := (&theirCase{}).workload(t)
	w.Annotations = labels(texts{listOf("secret"): "large"})
	s.workload("Deployment", w)
	s.finish()
	if got := findings(s.Workloads, s.Sources); !slices.Equal(got, []string{"NotRead ", "NotRead "}) || s.Wrong != 2 {
		t.Errorf("got %q, %d wrong", got, s.Wrong)
	}
}

func TestASurveyEndsWhereItTakesTooLongOrIsTooLarge(t *testing.T) {
	for reason, f := range map[string]func(s *survey) error{
		"Forbidden": func(s *survey) error {
			return s.unread("", "secret", secrets, &kube.Status{Code: 403, Reason: "Forbidden"})
		},
		"TooMany": func(s *survey) error {
			return s.unread("", "secret", secrets, fmt.Errorf("list: %w", errTooMany))
		},
	} {
		s := newSurvey(true)
		if err := f(s); err != nil || len(s.NotRead) != 1 || s.NotRead[0].Reason != reason || s.sees("x", "secret") {
			t.Errorf("%s: %v, %v", reason, err, s.NotRead)
		}
	}
	s := newSurvey(true)
	if err := s.unread("", "secret", secrets, errors.New("cut")); err == nil {
		t.Error("another error is not returned")
	}
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		pipe := api.ListenPipe()
		client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { client.Close(); pipe.Close(); api.Close() }()
		defer api.Inject(apiserver.Fault{Verb: "list", Resource: "configmaps", Delay: 50 * time.Second})()
		found, err := Look(t.Context(), client, []string{"a", "b", "c", "d"}, true)
		if err != nil || len(found.NotRead) != 1 || found.NotRead[0].Reason != "TooLong" ||
			found.NotRead[0].Namespace != "c" || found.OK() {
			t.Errorf("got %+v, %v", found, err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Look(gone, client, nil, true); !errors.Is(err, context.Canceled) {
			t.Errorf("of a canceled one: %v", err)
		}
	})
}

// A list whose snapshot is lost between two pages is read again, and nothing is counted twice.
func TestASurveyCountsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		pipe := api.ListenPipe()
		client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { client.Close(); pipe.Close(); api.Close() }()
		const n = kube.DefaultPageSize + 1
		for i := range n {
			var body object
			if err := json.Unmarshal([]byte(deployment(fmt.Sprint("w", i), auto, "")), &body); err != nil {
				t.Fatal(err)
			}
			if err := client.Create(t.Context(), deployments, "default", body, nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		defer api.Inject(apiserver.Fault{Verb: "list", Resource: "deployments", Skip: 1, Times: 1,
			Reply: &apiserver.Reply{Code: 410, Reason: "Expired", Message: "too old"}})()
		found, err := Look(t.Context(), client, nil, false)
		if err != nil || found.Looked != n || len(found.Workloads) != n || !found.OK() {
			t.Errorf("%d looked at, %d listed: %v", found.Looked, len(found.Workloads), err)
		}
	})
}
