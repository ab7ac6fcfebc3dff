package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lineHookVariable has this test's binary act as a hook in lines mode.
const lineHookVariable = "E2E_LINE_HOOK"

// linedController makes two ConfigMaps of a Lined.
const linedController = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: lined}
spec:
  generateSelector: true
  parentResource: {apiVersion: hooks.example.com/v1, resource: lineds}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  hooks:
    sync: {exec: {command: [%q], mode: lines, env: {%s: "1"}}}
`

// lineHook answers one line after the other. It takes its time, so that a signal comes amid a call.
func lineHook() error {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // its input has ended
		}
		var r hookRequest
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		<-time.After(30 * time.Millisecond)
		children := []any{}
		for i := range 2 {
			children = append(children, Object{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": Object{"name": fmt.Sprintf("%s-%d", r.Parent.Name(), i)},
				"data":     Object{"text": r.Parent.Str("spec", "text")}})
		}
		answer, err := json.Marshal(Object{"status": Object{"seen": len(r.Children["ConfigMap.v1"])},
			"children": children})
		if err != nil {
			return err
		}
		fmt.Println(string(answer))
	}
}

// childrenOf returns the processes that a process has started.
func childrenOf(t testing.TB, pid int) (pids []int) {
	t.Helper()
	entries := must(os.ReadDir("/proc"))(t)
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}

// Rules: HK-95, HK-96, HK-102
func TestALinesHookThatIsKilledAmidItsCallsLosesNothing(t *testing.T) {
	const parents, kills = 20, 12 // after each, a worker waits twice as long before it starts another process
	s := newScope(t)
	installHookDefinitions(t, s, "lined", "Lined")
	sk := startHooks(t, s, fmt.Sprintf(linedController, must(os.Executable())(t), lineHookVariable))
	waitReady(t, sk)
	path := "/apis/hooks.example.com/v1/namespaces/" + s.NS + "/lineds"
	for i := range parents {
		must(s.c.Admin.Create(t.Context(), path, Object{"apiVersion": "hooks.example.com/v1", "kind": "Lined",
			"metadata": Object{"name": fmt.Sprintf("p%d", i)}, "spec": Object{"text": "first"}}))(t)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var changing sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	changing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := s.c.Admin.Merge(t.Context(), fmt.Sprintf("%s/p%d", path, n%parents),
				Object{"spec": Object{"text": fmt.Sprint(n)}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	killed := 0
	Eventually(t, limit, "processes are killed", func() (bool, string) { // each tenth of a second
		if running := childrenOf(t, sk.cmd.Process.Pid); len(running) > 0 {
			if syscall.Kill(running[random.IntN(len(running))], syscall.SIGKILL) == nil { // else it has just ended
				killed++
			}
		}
		return killed == kills, fmt.Sprintf("%d of %d", killed, kills)
	})
	stop()
	changing.Wait()
	Eventually(t, limit, "all children have the text of their parents", func() (bool, string) {
		want := map[string]string{}
		for _, p := range s.get(path).List("items") {
			if p.Int("status", "seen") != 2 {
				return false, p.String()
			}
			want[p.Name()] = p.Str("spec", "text")
		}
		got := 0
		for _, c := range s.get("/api/v1/namespaces/" + s.NS + "/configmaps").List("items") {
			parent, _, _ := strings.Cut(c.Name(), "-")
			if text, ok := want[parent]; ok && c.Str("data", "text") == text {
				got++
			}
		}
		return got == 2*parents, fmt.Sprintf("%d of %d", got, 2*parents)
	})
	var running []int
	Eventually(t, limit, "a process of the hook runs", func() (bool, string) { // the last one may have been killed
		if running = childrenOf(t, sk.cmd.Process.Pid); len(running) == 0 {
			must(s.c.Admin.Merge(t.Context(), path+"/p0", Object{"spec": Object{"text": time.Now().String()}}))(t)
		}
		return len(running) > 0, ""
	})
	noError(t, sk.Terminate())
	for _, pid := range running {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d of the hook has outlived skiff: %v", pid, err)
		}
	}
}
