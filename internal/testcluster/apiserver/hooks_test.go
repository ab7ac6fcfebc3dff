package apiserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
)

// hooks is a webhook server over TLS and net.Pipe, which the API server reaches under any address. It
// answers each path as its function says.
type hooks struct {
	w      *testServer
	bundle string
	done   chan struct{} // closed at the end
	mu     sync.Mutex    // guards what follows
	calls  []string
	by     map[string]func(request map[string]any) string
	odd    map[string]http.HandlerFunc // answers that are more than a text
}

// withHooks is withServer with a webhook server.
func withHooks(t *testing.T, test func(w *testServer, h *hooks)) {
	withServer(t, Options{}, func(w *testServer) {
		cert, ca, err := httpd.NewCertificate()
		if err != nil {
			t.Fatal(err)
		}
		h := &hooks{w: w, bundle: base64.StdEncoding.EncodeToString(ca), done: make(chan struct{}),
			by: map[string]func(map[string]any) string{}, odd: map[string]http.HandlerFunc{}}
		p, served := pipes(make(chan net.Conn)), make(chan error, 1)
		server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
		go func() {
			served <- server.Serve(tls.NewListener(p, &tls.Config{Certificates: []tls.Certificate{cert}}))
		}()
		w.s.dial = func(context.Context, string, string) (net.Conn, error) {
			client, there := net.Pipe()
			p <- there
			return client, nil
		}
		defer func() {
			server.Close()
			<-served
		}()
		defer close(h.done)
		test(w, h)
	})
}

// pipes is a listener for the ends of net.Pipe that it is sent.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	b.ReadFrom(r.Body)
	v, err := patch.Decode(b.Bytes())
	if err != nil {
		h.w.t.Errorf("the review is no JSON: %v", err)
		return
	}
	request := obj.Map(v.(map[string]any), "request")
	h.mu.Lock()
	h.calls = append(h.calls, r.URL.Path+" "+obj.String(request, "operation"))
	by, odd := h.by[r.URL.Path], h.odd[r.URL.Path]
	h.mu.Unlock()
	if odd != nil {
		odd(w, r)
		return
	}
	answer := strings.ReplaceAll(by(request), "UID", obj.String(request, "uid"))
	fmt.Fprint(w, answer)
}

// called returns the calls since the last time, which it forgets.
func (h *hooks) called() string {
	synctest.Wait() // a watch may still be asking for a conversion
	h.mu.Lock()
	defer h.mu.Unlock()
	out := strings.Join(h.calls, ", ")
	h.calls = nil
	return out
}

// say is an AdmissionReview with these members in the response.
func say(response string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"UID",` + response + `}}`
}

// change is an answer with a JSON patch.
func change(ops string) string {
	return say(`"allowed":true,"patchType":"JSONPatch","patch":"` + base64.StdEncoding.EncodeToString([]byte(ops)) + `"`)
}

// always registers an answer for a path.
func (h *hooks) always(path, answer string) {
	h.by[path] = func(map[string]any) string { return answer }
}

// configure stores a configuration ("mutating" or "validating") of webhooks that are called at their paths for writes
// of ConfigMaps; more are members of each, such as `"failurePolicy":"Ignore"`.
func (h *hooks) configure(kind, name, more string, paths ...string) {
	h.w.t.Helper()
	var list []string
	for _, path := range paths {
		list = append(list, fmt.Sprintf(`{"name":"%s.hooks.test","sideEffects":"None","admissionReviewVersions":["v1"],
			"clientConfig":{"url":"https://127.0.0.1:9%s","caBundle":"%s"},
			"rules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]%s}`,
			strings.TrimPrefix(path, "/"), path, h.bundle, more))
	}
	h.w.must(201, "POST", "/apis/admissionregistration.k8s.io/v1/"+kind+"webhookconfigurations",
		`{"metadata":{"name":"`+name+`"},"webhooks":[`+strings.Join(list, ",")+`]}`)
}

func TestMutatingWebhooksAreCalledInOrderAndAgainIfNeeded(t *testing.T) {
	withHooks(t, func(w *testServer, h *hooks) {
		h.always("/first", change(`[{"op":"add","path":"/data/first","value":"1"}]`))
		h.always("/second", change(`[{"op":"add","path":"/data/second","value":"2"},
			{"op":"add","path":"/data/unknown","value":"x"},{"op":"add","path":"/noSuchField","value":"x"}]`))
		h.always("/third", say(`"allowed":true,"warnings":["careful","careful"]`))
		h.configure("mutating", "b", "", "/second", "/third")
		h.configure("mutating", "a", `,"reinvocationPolicy":"IfNeeded"`, "/first")
		a := w.must(201, "POST", configMaps, configMap("c"))
		if data := fmt.Sprint(a.at("data")); data != "map[a:b first:1 second:2 unknown:x]" ||
			a.at("noSuchField") != nil {
			t.Errorf("stored: %s", a.raw)
		}
		if got := h.called(); got != "/first CREATE, /second CREATE, /third CREATE, /first CREATE" {
			t.Errorf("called: %s", got)
		}
		if got := a.header["Warning"]; !slices.Equal(got, []string{`299 - "careful"`}) {
			t.Errorf("warnings: %v", got)
		}
		// Nothing is changed any more, so that none is called twice.
		w.must(200, "PATCH", configMaps+"/c", `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type",
			"application/merge-patch+json")
		if got := h.called(); got != "/first UPDATE, /second UPDATE, /third UPDATE" {
			t.Errorf("called: %s", got)
		}
	})
}

func TestAWebhookBehindAServiceIsCalledAtAnEndpoint(t *testing.T) {
	withHooks(t, func(w *testServer, h *hooks) {
		h.always("/hook", say(`"allowed":true`))
		h.configure("validating", "c", "", "/hook")
		const configuration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/c"
		w.must(200, "PATCH", configuration, `[{"op":"replace","path":"/webhooks/0/clientConfig",
			"value":{"caBundle":"`+h.bundle+`","service":{"namespace":"default","name":"hook","path":"/hook"}}}]`,
			"Content-Type", "application/json-patch+json")
		failed := func(want string) {
			t.Helper()
			a := w.must(500, "POST", configMaps, configMap("c"))
			if text, _ := a.at("message").(string); !strings.HasSuffix(text, want) {
				t.Errorf("message %s, want ...%s", text, want)
			}
		}
		failed(`Post "https://hook.default.svc:443/hook?timeout=10s": service "hook" not found`)
		w.must(201, "POST", "/api/v1/namespaces/default/services",
			`{"metadata":{"name":"hook"},"spec":{"ports":[{"name":"https","port":443}]}}`)
		failed(`no endpoints available for service "hook"`)
		w.must(201, "POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"metadata":{
			"name":"hook-1","labels":{"kubernetes.io/service-name":"hook"}},"addressType":"IPv4",
			"ports":[{"name":"https","port":8443}],"endpoints":[{"addresses":["10.0.0.7"]}]}`)
		// It is reached, but its certificate is for another name.
		failed("not hook.default.svc")
	})
}
