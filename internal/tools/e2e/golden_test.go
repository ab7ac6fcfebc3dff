package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

// exchange is a request and what a real server answers, as internal/testcluster/apiserver/testdata/golden keeps it.
type exchange struct {
	Name    string `json:"name"`
	Request struct {
		Method string `json:"method"`
		Path   string `json:"path"`
		Type   string `json:"type,omitempty"`
		Accept string `json:"accept,omitempty"`
		Body   string `json:"body,omitempty"`
	} `json:"request"`
	Answer struct {
		Code    int    `json:"code"`
		Type    string `json:"type"`
		Warning string `json:"warning,omitempty"`
		Body    []any  `json:"body"` // one value, the events of a watch, or the text
	} `json:"answer"`
}

// golden reads a golden file.
func golden[T any](t *testing.T, name string) (path string, content T) {
	t.Helper()
	path = filepath.Join(repository, "internal", "testcluster", "apiserver", "testdata", "golden", name)
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &content)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

// The answers in the golden files are those of a real server; a unit test of internal/testcluster/apiserver compares
// the embedded server's with them. With -update they are recorded anew: go test -run Golden . -update
func TestGoldenAnswersAreThoseOfTheRealServer(t *testing.T) {
	cluster := ownCluster(t)
	path, exchanges := golden[[]exchange](t, "exchanges.json")
	_, redactions := golden[[][2]string](t, "redact.json")
	for i := range exchanges {
		e := &exchanges[i]
		header := http.Header{"Accept": {or(e.Request.Accept, "application/json")}}
		if e.Request.Type != "" {
			header.Set("Content-Type", e.Request.Type)
		}
		body := []byte(e.Request.Body)
		resp := must(cluster.Admin.send(t.Context(), e.Request.Method, e.Request.Path, header, body))(t)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		recorded := e.Answer
		e.Answer.Code, e.Answer.Type = resp.StatusCode, resp.Header.Get("Content-Type")
		e.Answer.Warning = resp.Header.Get("Warning")
		if e.Answer.Body, err = redacted(text, redactions); err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		if !*update && !reflect.DeepEqual(e.Answer, recorded) {
			t.Errorf("%s: the real server answers %+v, recorded is %+v", e.Name, e.Answer, recorded)
		}
	}
	if *update {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		noError(t, errors.Join(e.Encode(exchanges), os.WriteFile(path, text.Bytes(), 0o644)))
	}
}

// redacted returns the JSON values of a body, without what is different in each cluster.
func redacted(body []byte, redactions [][2]string) (out []any, err error) {
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			return out, nil
		} else if err != nil {
			return []any{string(body)}, nil
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		for _, r := range redactions {
			text = regexp.MustCompile(r[0]).ReplaceAll(text, []byte(r[1]))
		}
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
}
