package e2e

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

// attacksFlag asks for all attacks of TestOneTenantNeverCostsAnother.
var attacksFlag = flag.Bool("attacks", false, "run all attacks of TestOneTenantNeverCostsAnother (an hour), not only "+
	"two of them")

const (
	// What skiff sets itself in the container of examples/install.yaml, and what it may take then.
	tenantLimit = 128 << 20
	tenantGo    = "GOMEMLIMIT=115MiB"
	// tenantPatience is how soon a change in a victim's namespace is made, at any moment, beside the time in which the
	// server shows the change to a watch. tenantShared is the bound where other parts of the suite share the cores:
	// there one change in 200 took 16 s on a slow machine, another 18 s, and 0.7 s alone. Who is starved waits for
	// minutes. `make attacks` has the cores to itself.
	tenantPatience = 5 * time.Second
	tenantShared   = 40 * time.Second
	// tenantShare bounds the mean time of a change of the attacked kind, in those of the kinds that are not attacked,
	// where others share the cores: 1.1 to 1.4 were seen, and 6 from a queue without turns for namespaces.
	tenantShare = 3
	// tenantChanges is how many changes a mean needs: a change of 16 s, seen once on a slow machine, is a third of a
	// second of such a mean.
	tenantChanges = 50
	// tenantRequests is how many requests' time a change may take beyond that: to read and to write what it takes to
	// make it. An idle server answers within 5 ms; one under attack, on a machine that does other work, takes longer.
	tenantRequests = 10
	// tenantRestart is how soon a process that starts amid the attack is ready, and tenantRecovery how soon all is
	// worked on when it is over, beside what the server itself takes for it.
	tenantRestart, tenantRecovery = 30 * time.Second, 2 * time.Minute
	// tenantHold is how long an attack lasts once it is complete.
	tenantHold = 10 * time.Second
)

// tenantAttack is what one tenant does to the others: n objects of one kind, of which flaps are changed ten times a
// second.
type tenantAttack struct {
	name   string
	plural string
	n      int
	flaps  int
	ends   bool               // all are deleted at once, instead of made small
	object func(i int) Object // metadata without a name, and spec
}

var tenantKinds = map[string]string{"webservers": "WebServer", "redis": "Redis", "restarttriggers": "RestartTrigger"}

// tenantMemory bounds what is resident. 9 MiB of it are the program's file, which the kernel drops where the container
// needs room. Where others share the cores, the collector comes later: there the bound is what ends a container, and
// the file beside it.
func tenantMemory() int64 {
	const file = 9 << 20
	if *attacksFlag {
		return 120 << 20
	}
	return tenantLimit + file
}

// tenantSpec is a spec that asks for no pods.
func tenantSpec(plural string) Object {
	return map[string]Object{
		"webservers": {"image": "x", "replicas": 0, "serviceType": "ClusterIP"},
		"redis":      {"num": 0, "port": 6379},
		"restarttriggers": {"source": Object{"selector": Object{"matchLabels": Object{"a": "b"}}},
			"targets": []Object{{"kind": "Deployment", "name": "none"}}},
	}[plural]
}

// annotated are attack (a): many objects, of which 175 have an annotation of 250,000 bytes.
func annotated(plural string, n int) tenantAttack {
	text := strings.Repeat("a", 250_000)
	return tenantAttack{name: fmt.Sprintf("%d annotated %s", n, plural), plural: plural, n: n,
		object: func(i int) Object {
			meta := Object{}
			if i%(n/25) < 7 {
				meta["annotations"] = Object{"example.com/text": text}
			}
			return Object{"metadata": meta, "spec": tenantSpec(plural)}
		}}
}

// large are attack (b): objects of 0.9 MB that a controller has to read. No RestartTrigger can be as large; what makes
// one large are the values of its selector.
func large(plural string, n int) tenantAttack {
	return tenantAttack{name: fmt.Sprintf("%d large %s", n, plural), plural: plural, n: n,
		object: func(i int) Object {
			spec := tenantSpec(plural)
			if plural == "restarttriggers" {
				spec["source"] = Object{"selector": Object{"matchExpressions": largeSelector(i)}}
				return Object{"metadata": Object{}, "spec": spec}
			}
			container := map[string]string{"webservers": "webserver", "redis": "redis"}[plural]
			spec["template"] = largeTemplate(container, i, 30)
			return Object{"metadata": Object{}, "spec": spec}
		}}
}

// heavy are many Redis, of which 400 have 200 KB: each may be held, but not all.
func heavy(n int) tenantAttack {
	return tenantAttack{name: fmt.Sprintf("%d heavy redis", n), plural: "redis", n: n,
		object: func(i int) Object {
			spec := tenantSpec("redis")
			if i%(n/400) == 0 {
				spec["template"] = largeTemplate("redis", i, 7)
			}
			return Object{"metadata": Object{}, "spec": spec}
		}}
}

// largeTemplate is a pod template with n times 30,000 bytes.
func largeTemplate(container string, i, n int) Object {
	var env []Object
	text := strings.Repeat("v", 30_000)
	for j := range n {
		env = append(env, Object{"name": fmt.Sprintf("E%d_%d", i, j), "value": text})
	}
	return Object{"spec": Object{"containers": []Object{{"name": container, "env": env}}}}
}

func largeSelector(i int) (all []Object) {
	for j := range 70 {
		var values []string
		for k := range 200 {
			values = append(values, fmt.Sprintf("%d.%d.%d.%s", i, j, k, strings.Repeat("x", 45)))
		}
		all = append(all, Object{"key": fmt.Sprintf("k%d", j), "operator": "NotIn", "values": values})
	}
	return all
}

// small are objects as they should be.
func small(plural string, n, flaps int) tenantAttack {
	return tenantAttack{name: fmt.Sprintf("%d %s %d flapping", n, plural, flaps), plural: plural, n: n, flaps: flaps,
		object: func(int) Object { return Object{"metadata": Object{}, "spec": tenantSpec(plural)} }}
}

// deleted are the Redis of another attack with skiff's finalizer, which are deleted at once, and one that has pods.
func deleted(a tenantAttack) tenantAttack {
	of := a.object
	a.name, a.ends = a.name+" deleted", true
	a.object = func(i int) Object {
		o := of(i)
		o["metadata"].(Object)["finalizers"] = []string{"skiff.dev/pods"}
		return o
	}
	return a
}

// restartPatience is the bound of a start amid the attack.
func restartPatience() time.Duration {
	if *attacksFlag {
		return tenantRestart
	}
	return tenantRestart + tenantShared
}

// victimPatience is the bound of a change in a victim's namespace.
func victimPatience() time.Duration {
	if *attacksFlag {
		return tenantPatience
	}
	return tenantShared
}

func tenantAttacks() []tenantAttack {
	if !*attacksFlag {
		n := 1000
		if testing.Short() {
			n = 500 // with the same bytes, and a queue that tenantShare still sees
		}
		return []tenantAttack{annotated("webservers", n), large("webservers", 45)}
	}
	var all []tenantAttack
	for _, plural := range []string{"webservers", "redis", "restarttriggers"} {
		all = append(all, annotated(plural, 1000), large(plural, 45), large(plural, 60), large(plural, 300),
			small(plural, 5000, 0), small(plural, 200, 200))
	}
	return append(all, deleted(heavy(2000)), deleted(large("redis", 60)))
}

// What one tenant does in its namespace never keeps skiff from its work in another: see SECURITY.md.
func TestOneTenantNeverCostsAnother(t *testing.T) {
	bins := must(binaries())(t)
	c := must(StartControlPlane(t.Context(), bins))(t) // without controllers: no pods are needed
	t.Cleanup(func() { c.Close(t.Failed()) })
	noError(t, applyFiles(c, repository+"/crds"))
	for _, a := range tenantAttacks() {
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) { withstandTenant(t, c, a) })
	}
}

// withstandTenant runs skiff through one attack.
func withstandTenant(t *testing.T, c *Cluster, a tenantAttack) {
	w := newTenantWorld(t, c, a)
	w.start()
	w.victims()
	probing := w.probe()
	if a.ends {
		w.pods()
	}
	w.attack()
	w.hold()
	peak := w.peak()
	probing.pause()
	noError(t, w.skiff.Kill())
	took := w.start()
	if took > restartPatience() {
		t.Errorf("ready %s after the restart amid the attack, want at most %s", took, restartPatience())
	}
	probing.resume()
	w.hold()
	if a.ends {
		w.deletes()
	} else {
		w.calm()
	}
	recovered := w.recovers()
	peak = max(peak, w.peak())
	worst := probing.stop()
	if most := tenantMemory(); peak > most {
		t.Errorf("peak memory %s, want at most %s", megabytes(peak), megabytes(most))
	}
	t.Logf("peak %s, changes of victims made within %s, restarted in %s, recovered in %s", megabytes(peak), worst,
		took.Round(time.Millisecond), recovered.Round(time.Millisecond))
}
