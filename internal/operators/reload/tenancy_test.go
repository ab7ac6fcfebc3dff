package reload

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

var namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// A tenant who changes 10,000 sources a minute delays no restart of another tenant, and has few restarts of his own.
func TestOneTenantsChangesDelayNoOther(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", auto, envFrom("a"))
		w.Post(namespaces, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+operatortest.Elsewhere+`"}}`)
		w.PostIn(operatortest.Elsewhere, configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"key":"1"}}`)
		for i := range 20 {
			w.PostIn(operatortest.Elsewhere, deployments, deployment(fmt.Sprint("web-", i), auto, envFrom("a")))
		}
		w.Pass(time.Minute)
		change := func(i int) {
			w.PatchIn(operatortest.Elsewhere, configMaps, "a", fmt.Sprintf(`{"data":{"key":"n%d"}}`, i))
		}
		start := time.Time{}
		for i := range 10_000 {
			change(i)
			if i == 2000 {
				w.setConfigMap("a", "2")
				start = time.Now()
			}
			w.Pass(6 * time.Millisecond)
			if !start.IsZero() && w.revision("web") == "2" {
				break
			}
		}
		if took := time.Since(start); took > DefaultDebounce+time.Second {
			t.Errorf("restarted %s after the change", took)
		}
	})
}

func TestALargeSourceIsAsGoodAsASmallOne(t *testing.T) {
	story(t, Options{}, func(w *env) {
		large := strings.Repeat("x", 1<<20-100)
		w.configMap("a", large+"1")
		w.Post(secrets, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"key":%q}}`,
			base64.StdEncoding.EncodeToString([]byte(large))))
		w.deploy("web", auto, `,"envFrom":[{"configMapRef":{"name":"a"}},{"secretRef":{"name":"s"}}]`)
		w.Pass(time.Minute)
		w.setConfigMap("a", large+"2")
		w.Pass(time.Minute)
		w.wantRestarts("web", 1)
		w.Patch(secrets, "s", fmt.Sprintf(`{"data":{"key":%q}}`, base64.StdEncoding.EncodeToString([]byte(large+"2"))))
		w.Pass(2 * time.Minute)
		w.wantRestarts("web", 2)
	})
}

// No value of a source is in what anybody is shown: annotations, Events, the log, the page.
func TestNoValueIsShown(t *testing.T) {
	var logged clitest.Buffer // three controllers write
	var cs []*controller.Controller
	o := options
	o.Quiet, o.Setup.History = true, new(history.Log)
	o.Resource = deployments
	o.NewAll = func(s controller.Setup, r *events.Recorder) []*controller.Controller {
		s.Log = funcr.New(func(prefix, args string) { fmt.Fprintln(&logged, prefix, args) }, funcr.Options{})
		cs = New(s, r, Options{})
		return cs
	}
	operatortest.Run(t, o, func(w *operatortest.Env) {
		e := inCluster(w)
		w.Start()
		secret := func(n int) string {
			return base64.StdEncoding.EncodeToString(fmt.Append(nil, operatortest.Canary, n))
		}
		w.Post(secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"key":"`+secret(1)+`"}}`)
		e.configMap("a", operatortest.Canary+"1")
		e.deploy("web", auto, `,"envFrom":[{"configMapRef":{"name":"a"}},{"secretRef":{"name":"s"}}]`)
		w.Pass(time.Minute)
		w.Patch(secrets, "s", `{"data":{"key":"`+secret(2)+`"}}`)
		e.setConfigMap("a", operatortest.Canary+"2")
		for range 4 {
			w.Pass(3 * time.Second)
			operatortest.WantNoCanary(w, cs[0], o.Setup.History, "web")
		}
		e.wantRestarts("web", 1)
		shown := logged.String()
		records := kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}
		for _, r := range []kube.Resource{deployments, records} {
			text, err := json.Marshal(w.API.List(r, ""))
			if err != nil {
				t.Fatal(err)
			}
			shown += string(text)
		}
		if !strings.Contains(shown, "configmap/a") {
			t.Errorf("nothing was shown: %s", shown)
		}
		for _, canary := range []string{operatortest.Canary, secret(1)[:8]} {
			if strings.Contains(shown, canary) {
				t.Errorf("%q is shown: %s", canary, shown)
			}
		}
	})
}
