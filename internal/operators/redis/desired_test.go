package redis

import (
	"reflect"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// decodeAs reads an object as a server sends it.
func decodeAs[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := kube.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

const identity = `"metadata":{"name":"cache","namespace":"shop","uid":"4c1a","generation":1}`

func redisOf(t *testing.T, spec string) *Redis {
	t.Helper()
	return decodeAs[Redis](t, `{`+identity+`,"spec":`+spec+`}`)
}

func TestDesiredState(t *testing.T) {
	for name, spec := range map[string]string{
		"least": `{"port":6379,"num":1}`,
		"fields": `{"port":6380,"num":3,"image":"redis:6","minReadySeconds":7,"resources":{"limits":{"memory":"96Mi"}},
			"config":{"maxmemory":"64mb","maxclients":100,"save":"900 1\n300 10","appendonly":"no","requirepass":"hunter2"}}`,
		"overlay": `{"port":6379,"num":1,"config":{"requirepass":"$(REDISCLI_AUTH)","save":""},"template":{
			"metadata":{"annotations":{"example.com/scrape":"true"},
				"labels":{"app":"redis-cluster","app.kubernetes.io/managed-by":null}},
			"spec":{"hostname":"mine","nodeSelector":{"disk":"ssd"},"volumes":[{"name":"data","emptyDir":{}}],"containers":[
				{"name":"redis","env":[{"name":"REDISCLI_AUTH","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}],
					"volumeMounts":[{"name":"data","mountPath":"/data"}]},
				{"name":"exporter","image":"exporter:1"}]}}}`,
		"nulls": `{"port":6379,"num":0,"image":null,"resources":null,"config":null,"template":null}`,
	} {
		t.Run(name, func(t *testing.T) { checkGolden(t, name, redisOf(t, spec)) })
	}
}

func checkGolden(t *testing.T, name string, rd *Redis) {
	t.Helper()
	children, err := definition.Declare(rd)
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string]any{"children": len(children), "service": children[0].Body}
	if len(children) > 1 {
		last := children[len(children)-1]
		golden["last pod"], golden["minReady"] = last.Body, last.MinReady.String()
	}
	operatortest.Golden(t, name, golden)
}

func TestRevisionFollowsWhatPodsAreMadeOfAndNothingElse(t *testing.T) {
	const base = `{"port":6379,"num":1}`
	revision := func(spec string) string {
		t.Helper()
		return declaredRevision(t, redisOf(t, spec))
	}
	for _, same := range []string{`{"port":6379,"num":5}`, `{"port":6379,"num":1,"minReadySeconds":9}`,
		`{"port":6379,"num":1,"image":"redis:7-alpine"}`,
		`{"num":1,"config":{},"port":6379}`} {
		if revision(same) != revision(base) {
			t.Errorf("%s makes another revision than %s", same, base)
		}
	}
	seen := map[string]string{revision(base): base}
	for _, other := range []string{`{"port":6378,"num":1}`, `{"port":6379,"num":1,"image":"redis:6"}`,
		`{"port":6379,"num":1,"config":{"save":""}}`,
		`{"port":6379,"num":1,"resources":{"limits":{"cpu":1}}}`,
		`{"port":6379,"num":1,"template":{"metadata":{"labels":{"a":"b"}}}}`} {
		if before, ok := seen[revision(other)]; ok {
			t.Errorf("%s and %s make the same revision", other, before)
		}
		seen[revision(other)] = other
	}
}

// declaredRevision is that of the pods of a Redis that has some.
func declaredRevision(t *testing.T, rd *Redis) string {
	t.Helper()
	children, err := definition.Declare(rd)
	if err != nil {
		t.Fatal(err)
	}
	revision, _ := operatortest.At(children[1].Body, "metadata", "labels", RevisionLabel).(string)
	return revision
}

func TestInvalidSpecNamesTheField(t *testing.T) {
	for spec, field := range map[string]string{
		`{"num":1}`:                                          "spec.port",
		`{"port":80,"num":1}`:                                "spec.port",
		`{"port":6369,"num":1}`:                              "spec.port",
		`{"port":6381,"num":1}`:                              "spec.port",
		`{"port":6379}`:                                      "spec.num",
		`{"port":6379,"num":-1}`:                             "spec.num",
		`{"port":6379,"num":1001}`:                           "spec.num",
		`{"port":6379,"num":1,"image":""}`:                   "spec.image",
		`{"port":6379,"num":1,"config":[]}`:                  "spec.config",
		`{"port":6379,"num":1,"template":"no"}`:              "spec.template",
		`{"port":6379,"num":1,"template":{"spec":null}}`:     "spec.template",
		`{"port":6379,"num":1,"minReadySeconds":-1}`:         "spec.minReadySeconds",
		`{"port":6379,"num":1,"config":{"port":"1"}}`:        "spec.config.port",
		`{"port":6379,"num":1,"config":{"daemonize":"yes"}}`: "spec.config.daemonize",
		`{"port":6379,"num":1,"config":{"appendonly":true}}`: "spec.config.appendonly",
		`{"port":6379,"num":1,"config":{"save 1":""}}`:       "spec.config.save 1",
		`{"port":6379,"num":1,"template":{"spec":{"containers":[{}]}}}`: "spec.template.spec.containers[0] has no name; " +
			"the server's own container is named redis",
		`{"port":6379,"num":1,"template":{"metadata":{"labels":{"app.kubernetes.io/name":"x"}}}}`: "spec.template.metadata.labels",
		`{"port":6379,"num":1,"template":{"metadata":{"labels":{"skiff.dev/revision":"x"}}}}`:     "spec.template.metadata.labels",
	} {
		if _, err := desired(redisOf(t, spec)); err == nil || !strings.HasPrefix(err.Error(), field+":") &&
			err.Error() != field {
			t.Errorf("%s: got error %v, want one about %s", spec, err, field)
		}
	}
	for name, ok := range map[string]bool{"a": true, strings.Repeat("a", 59): true, strings.Repeat("a", 60): false,
		"1a": false, "a.b": false} {
		rd := decodeAs[Redis](t, `{"metadata":{"name":"`+name+`"},"spec":{"port":6379,"num":1}}`)
		if _, err := desired(rd); (err == nil) != ok {
			t.Errorf("%s: error %v, want valid %t", name, err, ok)
		}
	}
}

func TestConfigBecomesLinesOfRedisConf(t *testing.T) {
	c := config{"save": "900 1\n\n 300 10 \n", "maxmemory": "64mb", "masterauth": `"a b"`, "logfile": ""}
	want := []string{`--logfile ""`, `--masterauth "a b"`, "--maxmemory 64mb", "--save 900 1", "--save 300 10"}
	if got := c.lines(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDesiredLeavesItsArgumentAlone(t *testing.T) {
	const spec = `{"port":6379,"num":2,"config":{"save":""},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"redis","env":[{"name":"A"}]}]}}}`
	rd, untouched := redisOf(t, spec), redisOf(t, spec)
	for range 2 {
		children, err := definition.Declare(rd)
		if err != nil {
			t.Fatal(err)
		}
		if one, two := children[1].Body, children[2].Body; reflect.DeepEqual(one, two) {
			t.Error("two pods are the same")
		}
	}
	if !reflect.DeepEqual(rd, untouched) {
		t.Errorf("the cached Redis was changed: %+v", rd)
	}
}
