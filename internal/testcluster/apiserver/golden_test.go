package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"testing"
)

// exchange is a request, and what a real server answered. TestGoldenAnswersAreThoseOfTheRealServer of tools/e2e
// records the answers, and holds them against a real server.
type exchange struct {
	Name    string
	Request struct{ Method, Path, Type, Accept, Body string }
	Answer  struct {
		Code          int
		Type, Warning string
		Body          []any
	}
}

func readGolden(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/golden/" + name)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Rules: FI-20
func TestRecordedAnswersOfARealServerAreGivenAgain(t *testing.T) {
	var exchanges []exchange
	var redactions [][2]string
	readGolden(t, "exchanges.json", &exchanges)
	readGolden(t, "redact.json", &redactions)
	withServer(t, Options{}, func(w *testServer) {
		for _, e := range exchanges {
			header := []string{"Accept", "application/json"}
			if e.Request.Accept != "" {
				header[1] = e.Request.Accept
			}
			if e.Request.Type != "" {
				header = append(header, "Content-Type", e.Request.Type)
			}
			a := w.do(e.Request.Method, e.Request.Path, e.Request.Body, header...)
			got := e.Answer
			got.Code, got.Type, got.Warning = a.code, a.header.Get("Content-Type"), a.header.Get("Warning")
			got.Body = redacted(t, a.raw, redactions)
			if !reflect.DeepEqual(got, e.Answer) {
				t.Errorf("%s: %s %s\nanswered %s\nrecorded %s", e.Name, e.Request.Method, e.Request.Path,
					asText(t, got), asText(t, e.Answer))
			}
		}
	})
}

// redacted returns the JSON values of a body, without what is different in each cluster.
func redacted(t *testing.T, body string, redactions [][2]string) (out []any) {
	for d := json.NewDecoder(bytes.NewReader([]byte(body))); ; {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			return []any{body}
		}
		text := asText(t, v)
		for _, r := range redactions {
			text = regexp.MustCompile(r[0]).ReplaceAll(text, []byte(r[1]))
		}
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
}

func asText(t *testing.T, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
