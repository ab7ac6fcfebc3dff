package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What skiff may take under attack. The limits of the process are above that, so that a peak between two samples ends
// it: the data segment has all that the heap ever had, and Go reserves 1.3 GiB of addresses before it uses any.
const (
	// hostileMemory is that of the container of examples/install.yaml. Where the machine permits it, skiff runs in a
	// control group of that size; the peak has the pages of the program's file as well, some 9 MiB.
	hostileMemory = 128 << 20
	hostilePeak   = hostileMemory + 9<<20
	hostileLimits = `ulimit -d 400000 && ulimit -v 2000000 && exec "$@"`
	hostileGo     = "GOMEMLIMIT=115MiB"
	// hostileLines bounds the lines of a run that are not about an object, those about objects have a limit of their
	// own: a server may declare objects without end.
	hostileLines, hostileObjectLines = 120, 12_000
	// hostileRequests bounds the requests that an attack provokes.
	hostileRequests = 3000
	hostileTime     = 3 * time.Second
	// hostileRecovery is the time in which all works again once the attack has ended, beside the time for skiff's own
	// work, a second of which may take as many as hostileShare on a busy machine. The longest pause is the one that a
	// server may ask for with Retry-After.
	hostileRecovery = 2 * time.Minute
	hostileShare    = 10
	// hostileCPU bounds the work that an attack makes. Tiny objects in a watch make the most: 17 s where the machine
	// is so busy that thousands of them are worked on before the next list shows that there are none.
	hostileCPU = time.Minute
)

func item(name string, rv int, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","uid":"u-%s","resourceVersion":"%d"}%s}`, name, name,
		rv, more)
}

func eventOf(t, object string) string { return `{"type":"` + t + `","object":` + object + "}\n" }

const endOfInitial = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1000",` +
	`"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"

// endless is an attack that lists, streams and watches objects that f makes, without end.
func endless(name, on string, f func(i int) string) []attack {
	events := func(a *assault) { a.forever(func(i int) string { return eventOf("ADDED", f(i)) }) }
	return []attack{
		{name: name + " in a list", on: on, list: func(a *assault) { a.pages(f, -1) }},
		{name: name + " in a streamed list", on: on, stream: events,
			list: func(a *assault) { a.pages(f, -1) }},
		{name: name + " in a watch", on: on, watch: events,
			stream: func(a *assault) { a.writes(endOfInitial); events(a) }, list: func(a *assault) { a.pages(f, 0) }},
	}
}

// pages sends a list of n objects, or without end where n is negative.
func (a *assault) pages(f func(i int) string, n int) {
	a.writes(`{"kind":"` + a.kind() + `List","metadata":{"resourceVersion":"1000"},"items":[`)
	for i := 0; i != n && !a.over(); i++ {
		if i > 0 {
			a.writes(",")
		}
		a.writes(f(i))
	}
	a.writes("]}")
}

// strange are frames that no API server sends.
var strange = []string{
	`{"type":"X","object":{},"type":"ADDED"}`, `{"object":{},"object":{"metadata":{"name":"a"}},"type":"ADDED"}`,
	`{"type":"ADDED","object":null}`, `{"type":"ADDED"}`, `{"type":"ADDED","object":{}}`, `{"type":[],"object":{}}`,
	`{"type":"ADDED","object":{"metadata":{"name":"a"}},"object":null}`, `{"type":"ERROR","object":{"code":410}}`,
	`{"type":"ADDED","object":{"metadata":{"name":"../../x","resourceVersion":"9"}}}`,
	`{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"99999999999999999999999"}}}`,
	`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"-1"}}}`, `{"type":"BOOKMARK","object":{"metadata":[]}}`,
	`{"type":"ADDED","object":{"metadata":{"name":"\u001b]52;c;aGk=\u0007","resourceVersion":"9"},"spec":7}}`, `[]`, `7`,
}

func attacks() []attack {
	deep := strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998)
	three := strings.Repeat("x", 3<<20)
	fifteen := strings.Repeat("y", 15<<20)
	name := func(i int) string { return fmt.Sprint("n", i) }
	few := func(i int) string { return fmt.Sprint("n", i%3) }
	all := []attack{
		{name: "malformed watch frames", on: "pods redis",
			stream: func(a *assault) { a.forever(func(i int) string { return strange[i%len(strange)] + "\n" }) },
			watch:  func(a *assault) { a.forever(func(i int) string { return strange[i%len(strange)] + "\n" }) },
			list:   func(a *assault) { a.pages(func(i int) string { return strange[i%len(strange)] }, 1000) }},
		{name: "Retry-After overflow", on: "pods redis", stream: retryAfter, list: retryAfter},
		{name: "endless short answers", on: "writes", list: func(a *assault) {
			a.forever(func(int) string { return `{"x":"` + three })
		}},
		{name: "continue tokens that never end", on: "pods redis", list: func(a *assault) {
			n := rand.Int() // no two tokens are equal
			a.writes(fmt.Sprintf(`{"kind":"%sList","metadata":{"resourceVersion":"1000","continue":"t%d"},"items":[%s]}`,
				a.kind(), n, item(name(n), 7, "")))
		}},
		{name: "empty pages", on: "pods redis", list: func(a *assault) {
			a.writes(fmt.Sprintf(`{"kind":"%sList","metadata":{"resourceVersion":"1000","continue":"t%d"},"items":[]}`,
				a.kind(), rand.Int()))
		}},
		{name: "a byte per second", on: "pods redis restarttriggers namespaces",
			stream: func(a *assault) { a.drips(func(int) string { return " " }) },
			list:   func(a *assault) { a.drips(func(int) string { return " " }) }},
		{name: "one object that changes all the time", on: "pods redis", list: func(a *assault) { a.pages(few, 0) },
			stream: func(a *assault) {
				a.writes(endOfInitial)
				a.forever(func(i int) string { // the resource version stays, so that the sane server knows it
					return eventOf("MODIFIED", strings.Replace(item("n", 1001, `,"spec":{"num":0}`), "u-n", few(i), 1))
				})
			}},
		{name: "end marks that were not asked for", on: "leases pods redis", standby: true, stream: endMarks,
			watch: endMarks, list: func(a *assault) { a.pages(few, 0) }},
		{name: "garbage", on: "pods redis", stream: garbage, watch: garbage, list: garbage},
		{name: "half-open", on: "pods redis writes", stream: halfOpen, watch: halfOpen, list: halfOpen},
	}
	// The sane server has never had the versions, as after a restore of etcd: so it can be known that the objects are
	// gone. A server that has lost objects at a version of its own history says so to no client.
	tiny := func(i int) string { return item(name(i), 1_000_000+i, "") }
	kinds := "webservers redis restarttriggers pods services deployments"
	all = append(all, endless("tiny objects of all kinds", kinds, tiny)[1])
	for _, more := range [][]attack{
		endless("tiny objects", "pods redis", tiny),
		endless("items of 15 MB of all kinds", kinds, func(i int) string {
			return item(name(i), 1001, `,"spec":{"num":0,"template":{"x":"`+fifteen+`"}}`)
		}),
		endless("undecodable objects", "pods redis", func(i int) string {
			return item(name(i), 1001, `,"spec":7,"status":[]`)
		}),
		endless("objects nested 9,998 deep", "pods redis", func(i int) string {
			return item(few(i), 1001, `,"spec":{"num":0,"template":`+deep+`},"other":`+deep)
		}),
		endless("values of 3 MiB", "pods redis", func(i int) string {
			return item(few(i), 1001, `,"spec":{"num":0,"config":{"x":"`+three+`"}},"other":"`+three+`"`)
		}),
		endless("other kinds and names", "pods redis", func(i int) string {
			return fmt.Sprintf(`{"kind":"Secret","metadata":{"name":"../n%d","namespace":"kube-system"}}`, i)
		}),
	} {
		all = append(all, more...)
	}
	return all
}

// endMarks says time and again that the initial events have come.
func endMarks(a *assault) { a.drips(func(int) string { return endOfInitial }) }

func retryAfter(a *assault) {
	a.w.Header().Set("Retry-After", "9223372037")
	a.w.WriteHeader(http.StatusTooManyRequests)
	a.writes(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests",` +
		`"details":{"retryAfterSeconds":9223372037}}`)
}

func garbage(a *assault) {
	bytes := make([]byte, 4096)
	switch rand.N(3) {
	case 0:
		a.w.Header().Set("Content-Type", "text/html")
		a.writes("<html><body>Sign in</body></html>")
	case 1:
		a.writes(`{"kind":"` + a.kind() + `List","metadata":{"resourceVersion":"1000"},"items":[{"metadata":{"na`)
	default:
		a.forever(func(int) string {
			for i := range bytes {
				bytes[i] = byte(rand.N(256))
			}
			return string(bytes)
		})
	}
}

func halfOpen(a *assault) {
	select {
	case <-a.calm:
	case <-a.r.Context().Done():
	}
}

// A server that is out to crash skiff, to exhaust it or to fill its log costs what it attacks, and nothing else; when
// it turns sane, all goes on.
func TestHostileServersCostOnlyWhatTheyAttack(t *testing.T) {
	binary := must(skiffBinary())(t)
	group := must(NewGroup())(t)
	t.Cleanup(group.Close)
	for _, a := range attacks() {
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			withstand(t, group, binary, a)
		})
	}
}

// withstand runs skiff against one attack.
func withstand(t *testing.T, group *Group, binary string, a attack) {
	h := must(StartHostile(a, t.TempDir()))(t)
	t.Cleanup(h.Close)
	t.Cleanup(h.Calm)
	prepare(t, h)
	declare(t, h, "early")
	var flags []string
	if a.standby {
		occupy(t, h)
		flags = []string{"--leader-elect", "--leader-election-namespace=default"}
	}
	p := startHostile(t, group, binary, h, flags...)
	defer p.Kill()
	began := time.Now()
	if !strings.Contains(a.on, "writes") && !strings.Contains(a.on, "webservers") {
		exists(t, h, p, "/apis/apps/v1/namespaces/default/deployments/early")
	}
	select {
	case <-time.After(hostileTime - time.Since(began)):
	case <-p.Done():
	}
	attacked := h.Attacks()
	if attacked == 0 || attacked > hostileRequests {
		t.Errorf("the attack had %d requests, want some and at most %d", attacked, hostileRequests)
	}
	h.Calm()
	calmed := time.Now()
	recovers(t, h, p)
	recovered := time.Since(calmed)
	use, err := p.Usage()
	if err != nil || p.Exited() {
		t.Fatalf("skiff has ended: %v\n%s", err, p.Tail(40))
	}
	ofObjects := len(p.LogLines(` key=`)) + len(p.LogLines(` object=`))
	lines := len(p.LogLines()) - ofObjects
	if use.Peak > hostilePeak || lines > hostileLines || ofObjects > hostileObjectLines || use.CPU > hostileCPU ||
		recovered > hostileRecovery+hostileShare*use.CPU || strings.Contains(p.Log(), "goroutine ") {
		t.Errorf("peak memory %d MiB, CPU %s, %d lines of log and %d about objects, recovered after %s\n%s",
			use.Peak>>20, use.CPU, lines, ofObjects, recovered, p.Tail(40))
	}
	t.Logf("%.1f s to recover, peak %d MiB, CPU %.1f s, %d attacks, %d lines of log and %d about objects",
		recovered.Seconds(), use.Peak>>20, use.CPU.Seconds(), attacked, lines, ofObjects)
}

// startHostile starts skiff against the server, with limits of memory.
func startHostile(t *testing.T, group *Group, binary string, h *Hostile, flags ...string) *Skiff {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	noError(t, (Kubeconfig{Server: h.Server, CAFile: h.CAFile, Token: admin.Token}).Write(kubeconfig))
	port := must(freePort())(t)
	args := append([]string{"/bin/sh", "-c", hostileLimits, "skiff", binary, "run", "--kubeconfig", kubeconfig,
		"--health-probe-bind-address=" + loopback(port)}, flags...)
	memory, err := NewMemoryGroup(fmt.Sprintf("skiff-hostile-%d", port), hostileMemory)
	if err != nil {
		t.Logf("not in a control group of %d MiB: %v", hostileMemory>>20, err)
	} else {
		args = memory.Command(args...)
		t.Cleanup(func() {
			if err := memory.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	p := must(group.Start(dir, "skiff", []string{hostileGo, "KUBECONFIG=", "HOME=" + dir}, args...))(t)
	return &Skiff{Process: p, probes: "http://" + loopback(port)}
}

// occupy makes a lease that another process holds, for a few seconds.
func occupy(t *testing.T, h *Hostile) {
	t.Helper()
	_, err := h.API.Create(t.Context(), "/apis/coordination.k8s.io/v1/namespaces/default/leases", Object{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": Object{"name": "skiff"},
		"spec": Object{"holderIdentity": "another", "leaseDurationSeconds": 4}})
	if err != nil {
		t.Fatal(err)
	}
}

// recovers waits until skiff is ready, and has done what was asked for before the attack and what is only now.
func recovers(t *testing.T, h *Hostile, p *Skiff) {
	t.Helper()
	declare(t, h, "late")
	for _, name := range []string{"early", "late"} {
		exists(t, h, p, "/apis/apps/v1/namespaces/default/deployments/"+name)
		exists(t, h, p, "/api/v1/namespaces/default/pods/"+name+"-0")
	}
	Eventually(t, limit, "skiff is ready", func() (bool, string) {
		err := p.Ready()
		return err == nil, errorText(err)
	})
}

// prepare installs the custom resources.
func prepare(t *testing.T, h *Hostile) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the definitions: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			_, err = h.API.Do(t.Context(), http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
				"application/yaml", string(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// declare makes a WebServer and a Redis.
func declare(t *testing.T, h *Hostile, name string) {
	t.Helper()
	for plural, object := range map[string]Object{
		"webservers": {"kind": "WebServer", "spec": Object{"image": "nginx:1", "replicas": 1}},
		"redis":      {"kind": "Redis", "spec": Object{"num": 1, "port": 6379}},
	} {
		object["apiVersion"], object["metadata"] = "skiff.dev/v1alpha1", Object{"name": name}
		Eventually(t, limit, plural+" are served", func() (bool, string) {
			_, err := h.API.Create(t.Context(), "/apis/skiff.dev/v1alpha1/namespaces/default/"+plural, object)
			return err == nil, errorText(err)
		})
	}
}

// exists waits until the embedded server has an object.
func exists(t *testing.T, h *Hostile, p *Skiff, path string) {
	t.Helper()
	Eventually(t, limit, path, func() (bool, string) {
		if p.Exited() {
			t.Fatalf("skiff has ended with code %d\n%s", p.ExitCode(), p.Tail(40))
		}
		_, err := h.API.Get(t.Context(), path)
		return err == nil, errorText(err) + "\n" + p.Tail(40)
	})
}
