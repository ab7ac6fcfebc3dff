package reload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// annotatedBy is a workload with annotations that refers to the ConfigMap cfg.
func annotatedBy(t *testing.T, annotations map[string]string) *target {
	c := theirCase{Name: "annotated", Workload: annotations, Refers: []string{"configmap/cfg"}}
	return c.workload(t)
}

func TestWhatIsWrongInReloadersAnnotationsCostsThatAlone(t *testing.T) {
	many := make([]string, maxPatterns+1)
	for i := range many {
		many[i] = fmt.Sprintf("n%d.*", i)
	}
	heads := map[string]head{"configmap/cfg": {}, "configmap/other": {}}
	for _, c := range []struct {
		annotation, value string
		faults            int
		entries           string
	}{
		{listOf("configmap"), "bad[,o.*", 1, "configmap/other"},
		{listOf("configmap"), strings.Repeat("x", maxPatternLength) + ".,o.*", 1, "configmap/other"},
		{listOf("configmap"), strings.Repeat("a{1000}", 3) + ",o.*", 1, "configmap/other"},
		{listOf("configmap"), strings.Repeat("a{900}.,", 3) + "o.*", 1, ""}, // each is small enough
		{listOf("configmap"), "o.*," + strings.Join(many, ","), 1, "configmap/other"},
		{listOf("configmap"), "o{2001}", 1, ""},
		{theirPause, "5 m", 1, "configmap/cfg"},
		{theirPause, "48h", 1, "configmap/cfg"},
		{theirPause, "-1s", 0, "configmap/cfg"},
	} {
		annotations := map[string]string{c.annotation: c.value}
		if c.annotation == theirPause {
			annotations[theirAuto] = "true"
		}
		got := wanted(annotatedBy(t, annotations), "Deployment", heads)
		var names []string
		for _, e := range got.entries {
			names = append(names, e.String())
		}
		if len(got.faults) != c.faults || strings.Join(names, " ") != c.entries ||
			c.faults > 0 && got.faults[0].annotation != c.annotation {
			t.Errorf("%s: %.40q: faults %v and entries %q, want %d and %q", c.annotation, c.value, got.faults, names,
				c.faults, c.entries)
		}
	}
}

func TestExpressionsAreBoundedByTheSourcesOfTheNamespace(t *testing.T) {
	w := annotatedBy(t, map[string]string{listOf("configmap"): "cfg,.{100}", listOf("secret"): "s.*"})
	for sources, faults := range map[int]int{1000: 0, maxMatching / 100: 1} {
		got := (&reader{reloader: true}).wants("Deployment", w)
		got.bearable(sources)
		if len(got.faults) != faults || len(got.theirs.choices[1].matches) != 1 {
			t.Errorf("%d sources: faults %v", sources, got.faults)
		}
	}
}

func TestThePausePeriodCountsForDeploymentsAlone(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"5m": 5 * time.Minute, "0": 0, "-5m": 0, "48h": maxPeriod, "x": 0} {
		w := annotatedBy(t, map[string]string{theirAuto: "true", theirPause: value})
		if got := wanted(w, "Deployment", nil).period; got != want {
			t.Errorf("%q: the period is %s, want %s", value, got, want)
		}
		if got := wanted(w, "StatefulSet", nil); got.period != 0 || len(got.faults) > 0 {
			t.Errorf("%q: a StatefulSet has the period %s and faults %v", value, got.period, got.faults)
		}
	}
}

func TestAnEntryOfSkiffsOwnAnnotationsStaysAsItIs(t *testing.T) {
	got := wanted(annotatedBy(t, map[string]string{ConfigMapsAnnotation: "cfg", listOf("configmap"): "cfg,c.*"}),
		"Deployment", map[string]head{"configmap/cfg": {}})
	if want := []entry{{kind: "configmap", name: "cfg", named: true}}; !slices.Equal(got.entries, want) {
		t.Errorf("entries %+v, want %+v", got.entries, want)
	}
	// What is ignored or excluded is so for Reloader's annotations.
	got = wanted(annotatedBy(t, map[string]string{AutoAnnotation: "auto", theirAuto: "true",
		excludeOf("configmap"): "cfg"}), "Deployment", map[string]head{"configmap/cfg": {ignore: true}})
	if len(got.entries) != 1 {
		t.Errorf("entries %+v, want cfg", got.entries)
	}
}

func TestWithoutTheOptionReloadersAnnotationsDoNotCount(t *testing.T) {
	w := annotatedBy(t, map[string]string{theirAuto: "true", listOf("secret"): "bad["})
	r := &reader{}
	if got := r.wants("Deployment", w); r.optedIn("Deployment", w) || len(got.entries)+len(got.faults) > 0 {
		t.Errorf("wants %+v", got)
	}
}

func TestAReloaderIsKnownByItsImageOrItsChart(t *testing.T) {
	for image, want := range map[string]bool{
		"r.example/stakater/reloader:v1": true, "stakater/reloader": true, "a:5000/b/stakater/reloader@sha256:0": true,
		"reloader": false, "stakater/reloader/x": false, "notstakater/reloader": false, "stakater/reloader-x:1": false,
		"": false,
	} {
		if isTheirImage(image) != want {
			t.Errorf("%q: not %v", image, want)
		}
	}
	for chart, want := range map[string]bool{"reloader-2.2.16": true, "reloader-x": false, "reloader-": false} {
		w := &target{}
		w.Labels = labels(map[string]string{"helm.sh/chart": chart})
		if w.isReloader() != want {
			t.Errorf("chart %q: not %v", chart, want)
		}
	}
}
