package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// hookControllers is how many hook controllers share a process here. Each has the parents with its label.
const hookControllers = 10

// rentedController makes a ConfigMap of a Rented.
const rentedController = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: rented-%[1]d}
spec:
  generateSelector: true
  parentResource:
    apiVersion: hooks.example.com/v1
    resource: renteds
    labelSelector: {matchLabels: {hook: "%[1]d"}}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  hooks:
    sync: {webhook: {url: %[2]s}}
`

// hookAttack is what one tenant does to the others by what it asks of hooks: n parents, of which flaps are changed ten
// times a second.
type hookAttack struct {
	name  string
	n     int
	flaps int
	spec  func(i int) Object
}

func hookAttacks() []hookAttack {
	text := strings.Repeat("v", 900_000)
	all := []hookAttack{
		{name: "60 parents with answers of 16 MiB", n: 60,
			spec: func(i int) Object { return Object{"answer": hostileNames[i%len(hostileNames)]} }},
		{name: "50 parents with slow hooks or other protocols", n: 50,
			spec: func(i int) Object { return Object{"slow": 9 * (i % 2), "switch": i%2 == 0} }},
	}
	if *attacksFlag {
		all = append(all,
			hookAttack{name: "5000 parents", n: 5000, spec: func(int) Object { return Object{"text": "x"} }},
			hookAttack{name: "60 parents of 0.9 MB", n: 60,
				spec: func(i int) Object { return Object{"text": "x", "more": fmt.Sprint(i, text)} }},
			hookAttack{name: "200 parents flapping", n: 200, flaps: 200,
				spec: func(int) Object { return Object{"text": "x"} }})
	}
	return all
}

// hostileAnswers are 16 MiB each.
var hostileAnswers = sync.OnceValue(func() map[string]string {
	const size = 16<<20 - 100
	many := func(item string) string {
		return strings.TrimSuffix(strings.Repeat(item+",", size/(len(item)+1)), ",")
	}
	child := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"` +
		strings.Repeat("x", 1500) + `"}}`
	return map[string]string{
		"garbage":  strings.Repeat("x", size),
		"deep":     strings.Repeat(`{"a":`, size/5),
		"objects":  `{"status":{"a":[` + many(`{"":{}}`) + `]}}`,
		"text":     `{"status":{"a":"` + strings.Repeat("x", size-20) + `"}}`,
		"children": `{"children":[` + many(child) + `]}`,
	}
})

var hostileNames = []string{"garbage", "deep", "objects", "text", "children"}

// answerRented is the hook: what its parent asks for.
func answerRented(w http.ResponseWriter, r *http.Request) {
	var request hookRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(time.Duration(request.Parent.Int("spec", "slow")) * time.Second):
	case <-r.Context().Done():
		return
	}
	if request.Parent.At("spec", "switch") == true {
		switchProtocols(w)
		return
	}
	if hostile, ok := hostileAnswers()[request.Parent.Str("spec", "answer")]; ok {
		_, _ = io.WriteString(w, hostile) // the reader has gone
		return
	}
	text := request.Parent.Str("spec", "text")
	_ = json.NewEncoder(w).Encode(Object{"status": Object{"text": text[:min(len(text), 10)]}, // the reader has gone
		"children": []any{Object{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": Object{"name": request.Parent.Name()}, "data": Object{"text": text}}}})
}

// switchProtocols answers 101, and keeps the connection as long as the client does, or a minute.
func switchProtocols(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn) // the reader has gone
}

// What one tenant has hooks do never keeps skiff from its work in another namespace: see SECURITY.md.
//
// Rules: HK-95, HK-106
func TestTheHooksOfOneTenantNeverCostAnother(t *testing.T) {
	c := must(StartControlPlane(t.Context(), must(binaries())(t)))(t)
	t.Cleanup(func() { c.Close(t.Failed()) })
	hook := httptest.NewServer(http.HandlerFunc(answerRented))
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "definition.yaml"), fmt.Sprintf(numberedDefinition, "rented", "Rented"))
	noError(t, applyFiles(c, filepath.Join(dir, "definition.yaml")))
	var controllers []string
	for i := range hookControllers {
		controllers = append(controllers, fmt.Sprintf(rentedController, i, hook.URL))
	}
	noError(t, os.Remove(filepath.Join(dir, "definition.yaml")))
	writeFile(t, filepath.Join(dir, "controllers.yaml"), strings.Join(controllers, "---\n"))
	for _, a := range hookAttacks() {
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			name := namespaceName(strings.ReplaceAll(a.name, " ", ""))
			w := &hookTenants{limitedSkiff: limited(t, c, name, "hooks", "run", "-f", dir), a: a,
				attacker: "attacker-" + name, victim: "victim-" + name}
			t.Cleanup(w.clean)
			w.withstand()
		})
	}
}

// hookTenants is an attacker and a victim who have parents of the same hook controllers.
type hookTenants struct {
	*limitedSkiff
	a                hookAttack
	attacker, victim string // namespaces
	stop             context.CancelFunc
	flapping         sync.WaitGroup
}

func (w *hookTenants) path(ns string) string {
	return "/apis/hooks.example.com/v1/namespaces/" + ns + "/renteds"
}

func (w *hookTenants) create(ctx context.Context, ns, name string, hook int, spec Object) error {
	_, err := w.c.Admin.Create(ctx, w.path(ns), Object{"apiVersion": "hooks.example.com/v1", "kind": "Rented",
		"metadata": Object{"name": name, "labels": Object{"hook": fmt.Sprint(hook)}}, "spec": spec})
	return err
}

// withstand runs skiff through the attack, and through a restart amid it.
func (w *hookTenants) withstand() {
	for _, ns := range []string{w.attacker, w.victim} {
		must(w.c.Admin.Create(w.Context(), "/api/v1/namespaces", Object{"metadata": Object{"name": ns}}))(w)
	}
	w.start()
	for i := range hookControllers {
		noError(w, w.create(w.Context(), w.victim, victimName(i), i, Object{"text": "0"}))
	}
	w.served("0")
	attack := make(chan struct{})
	go func() {
		defer close(attack)
		w.attack()
	}()
	var worst time.Duration
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	for i, attacking, restarted := 1, true, false; attacking || i < 15 || !restarted; i++ {
		if i == 8 {
			noError(w, w.skiff.Kill())
			if took := w.start(); took > restartPatience() {
				w.Errorf("ready %s after the restart amid the attack, want at most %s", took, restartPatience())
			}
			restarted = true
		}
		worst = max(worst, w.served(fmt.Sprint(i)))
		select {
		case <-attack:
			attacking = false
		default:
		}
		<-pause.C
	}
	peak := w.peak()
	if most := tenantMemory(); peak > most {
		w.Errorf("peak memory %s, want at most %s", megabytes(peak), megabytes(most))
	}
	w.Logf("peak %s, changes of the victim's parents made within %s", megabytes(peak), worst.Round(time.Millisecond))
}

// attack returns when it is complete. What flaps goes on.
func (w *hookTenants) attack() {
	parallel(w, w.a.n, func(ctx context.Context, i int) error {
		return w.create(ctx, w.attacker, fmt.Sprintf("a%04d", i), i%hookControllers, w.a.spec(i))
	})
	ctx, stop := context.WithCancel(noContext)
	w.stop = stop
	for i := range w.a.flaps {
		w.flapping.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = w.c.Admin.Merge(ctx, w.path(w.attacker)+fmt.Sprintf("/a%04d", i), // the server may be too busy
					Object{"spec": Object{"text": fmt.Sprint(n)}})
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
}

func victimName(hook int) string { return fmt.Sprintf("victim-%d", hook) }

// served changes a parent of each controller and returns how long it takes until its child has the text.
func (w *hookTenants) served(text string) time.Duration {
	w.Helper()
	began, slowest := time.Now(), time.Duration(0)
	for i := range hookControllers {
		_, err := w.c.Admin.Merge(w.Context(), w.path(w.victim)+"/"+victimName(i),
			Object{"spec": Object{"text": text}})
		noError(w, err)
		slowest = max(slowest, time.Since(began)/time.Duration(i+1))
	}
	began = time.Now()
	Eventually(w, 2*time.Minute, "the victim is served", func() (bool, string) {
		w.alive()
		asked := time.Now()
		list := must(w.c.Admin.Get(w.Context(), "/api/v1/namespaces/"+w.victim+"/configmaps"))(w)
		slowest = max(slowest, time.Since(asked))
		old := slices.DeleteFunc(list.List("items"), func(o Object) bool { return o.Str("data", "text") == text })
		return len(list.List("items"))-len(old) == hookControllers, fmt.Sprint(old)
	})
	took := time.Since(began)
	if most := victimPatience() + tenantRequests*slowest; took > most {
		w.Errorf("changes of the victim's parents were made after %s, want at most %s: a request took up to %s", took,
			most, slowest)
	}
	return took
}

// clean removes what the next attack must not meet.
func (w *hookTenants) clean() {
	if w.stop != nil {
		w.stop()
		w.flapping.Wait()
	}
	w.end()
	for _, ns := range []string{w.attacker, w.victim} {
		for _, all := range []string{w.path(ns), "/api/v1/namespaces/" + ns + "/configmaps"} {
			if err := w.c.Admin.Delete(noContext, all); err != nil {
				w.Error(err)
			}
		}
	}
}
