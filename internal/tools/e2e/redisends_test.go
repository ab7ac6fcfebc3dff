package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A Redis whose pods end at once, by the rejection of their node or because the command of a restartPolicy Never
// fails, is not a stream of pods: they are replaced at once, then after 10 s, 20 s, 40 s ...
//
// Rules: ERR-08
func TestRedisPodsThatEndAtOnce(t *testing.T) {
	s := newScope(t)
	startSkiff(t, s, withRedis...)
	ends := map[string]struct{ status, how string }{
		"rejected": {`{"status":{"phase":"Failed","reason":"OutOfcpu","message":"Pod was rejected: Node didn't have enough resource: cpu"}}`,
			"OutOfcpu: Pod was rejected"},
		"failing": {`{"status":{"phase":"Failed","containerStatuses":[{"name":"redis","image":"redis","imageID":"x","ready":false,
			"restartCount":0,"state":{"terminated":{"exitCode":1,"reason":"Error"}}}]}}`, "container redis ended with exit code 1 (Error)"},
	}
	start := time.Now()
	for name := range ends {
		s.Apply(RedisManifest(name, "port: 6379, num: 1, template: {spec: {restartPolicy: Never}}"))
	}
	for time.Since(start) < time.Minute { // the part of the kubelet
		for name, end := range ends {
			for _, p := range s.PodsOf(name) {
				if p.Str("status", "phase") != "Failed" && p.Str("spec", "nodeName") != "" {
					s.mergeIfThere(s.podPath(p.Name())+"/status", end.status)
				}
			}
		}
		s.waitMoment(100 * time.Millisecond)
	}
	for name, end := range ends {
		c := s.Redis(name).Condition("Degraded")
		if c.Str("status") != "True" || !strings.Contains(c.Str("message"), name+"-0") ||
			!strings.Contains(c.Str("message"), end.how) ||
			!strings.Contains(c.Str("message"), "pause") {
			s.Errorf("%s: Degraded is %s", name, c)
		}
		count := map[string]int{}
		for _, r := range s.skiffRequests(start, s.writesHere) {
			if strings.HasPrefix(r.Name, name) || r.Verb == "create" && strings.Contains(fmt.Sprint(r), name) {
				count[strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")]++
			}
		}
		t.Logf("%s: in a minute %v", name, count)
		if count["create pods"] > 6 || count["delete pods"] > 6 || count["patch redis/status"] > 30 {
			s.Errorf("%s: %v in a minute", name, count)
		}
	}
}
