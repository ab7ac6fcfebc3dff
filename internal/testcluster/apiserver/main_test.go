package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// testServer is one server with a client over net.Pipe, inside of a synctest bubble.
type testServer struct {
	t      *testing.T
	s      *Server
	pipe   *Pipe
	client *http.Client
}

// withServer runs a test in virtual time and takes everything down at its end.
func withServer(t *testing.T, o Options, test func(w *testServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(o)
		p := s.ListenPipe()
		tr := &http.Transport{DialContext: p.Dial}
		w := &testServer{t: t, s: s, pipe: p, client: &http.Client{Transport: tr}}
		defer func() {
			tr.CloseIdleConnections()
			p.Close()
			s.Close()
		}()
		test(w)
	})
}

// answer is what a request got.
type response struct {
	code   int
	header http.Header
	body   map[string]any
	raw    string
}

// at returns the value at a dotted path of the body as text.
func (a response) at(path string) any { return obj.Get(a.body, strings.Split(path, ".")...) }

func (w *testServer) do(method, path, body string, header ...string) response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, PipeURL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "test/1")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		w.t.Fatalf("%s %s: read the body: %v", method, path, err)
	}
	a := response{code: resp.StatusCode, header: resp.Header, raw: b.String()}
	if v, err := patch.Decode(b.Bytes()); err == nil {
		a.body, _ = v.(map[string]any)
	}
	return a
}

// must is do with the code that is expected.
func (w *testServer) must(code int, method, path, body string, header ...string) response {
	w.t.Helper()
	a := w.do(method, path, body, header...)
	if a.code != code {
		w.t.Fatalf("%s %s: code %d, want %d\n%s", method, path, a.code, code, a.raw)
	}
	return a
}

const (
	configMaps  = "/api/v1/namespaces/default/configmaps"
	deployments = "/apis/apps/v1/namespaces/default/deployments"
)

func configMap(name string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"b"}}`
}

// frame is one line of a watch.
type frame struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

func (f frame) at(path string) any { return obj.Get(f.Object, strings.Split(path, ".")...) }

// stream is an open watch.
type stream struct {
	w    *testServer
	resp *http.Response
	dec  *json.Decoder
}

func (w *testServer) watch(path string, header ...string) *stream {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", PipeURL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		w.t.Fatalf("watch %s: code %d", path, resp.StatusCode)
	}
	return &stream{w: w, resp: resp, dec: json.NewDecoder(resp.Body)}
}

func (s *stream) next() frame {
	s.w.t.Helper()
	var f frame
	if err := s.dec.Decode(&f); err != nil {
		s.w.t.Fatalf("next event: %v", err)
	}
	return f
}

// end reads to the end of the stream and returns what ended it.
func (s *stream) end() error {
	for {
		var f frame
		if err := s.dec.Decode(&f); err != nil {
			return err
		}
	}
}

func (s *stream) close() { s.resp.Body.Close() }

func eventNames(frames []frame) string {
	var out []string
	for _, f := range frames {
		name, _ := f.at("metadata.name").(string)
		out = append(out, strings.TrimSpace(f.Type+" "+name))
	}
	return strings.Join(out, ", ")
}
