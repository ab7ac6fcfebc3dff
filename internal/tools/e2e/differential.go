package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Script is a sequence of requests that is run against two servers in the same way. It works in a namespace of its
// own, which it finds empty.
type Script struct {
	Name  string
	Steps []Step
	Alone bool // it counts what the server sends by its clock, which depends on what else it does
	// Settled has each step begin when the server's cache has the write before: a write that begins with an older
	// version is made again, and webhooks are asked about it twice.
	Settled bool
}

// Step is one request. In Path and Body, ${name} stands for a captured value, ${ns} for the namespace's path
// ("namespaces/NAME") and ${NS} for its name.
type Step struct {
	Name   string
	Method string // GET if empty
	Path   string
	Type   string // Content-Type; application/json if empty
	Accept string
	Body   string
	As     string      // the user to impersonate; "" is the administrator
	Header http.Header // others; one without a value is not sent
	// Capture keeps values of the answer for later steps: variable -> path in the body, joined by dots.
	Capture map[string]string
	// Events makes the step a watch that is read until so many events came.
	Events int
	// ToEnd makes the step a watch that is read until the server ends it.
	ToEnd bool
	// Through makes the step a watch that is read through the first event of this type.
	Through string
	// Only keeps what has one of these names in the lists of a discovery document: the embedded server has fewer
	// kinds.
	Only []string
	// Until repeats the step until the answer or its headers hold that text: for what a server does some time after it
	// said yes.
	Until string
}

// Answer is what a server said to a step.
type Answer struct {
	Code   int
	Header map[string]any // the headers that a client acts on
	Body   any            // decoded JSON, or the text as it is
	Events []any          // of a watch
	Ended  bool           // the watch was ended by the server
}

// comparedHeaders are those that skiff or kubectl act on.
var comparedHeaders = []string{"Content-Type", "Cache-Control", "Retry-After", "Warning"}

// stepLimit bounds one request. A real server waits three seconds for a revision that has not come yet.
const stepLimit = 2 * time.Minute

// RunScript runs all steps against one server. A step whose capture fails ends it, because nothing after it would make
// sense.
func RunScript(ctx context.Context, api *API, s Script) ([]Answer, error) {
	namespace := s.namespace()
	_, err := api.Create(ctx, "/api/v1/namespaces", Object{"apiVersion": "v1", "kind": "Namespace",
		"metadata": Object{"name": namespace}})
	if err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	vars := Vars{"ns": "namespaces/" + namespace, "NS": namespace, "TOKEN": api.token,
		"TOKEN64": base64.RawURLEncoding.EncodeToString([]byte(api.token))}
	var answers []Answer
	for _, step := range s.Steps {
		a, err := runStep(ctx, api, step, vars)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", step.Name, err)
		}
		answers = append(answers, a)
		if s.Settled {
			if err := settled(ctx, api, step, a, vars); err != nil {
				return nil, fmt.Errorf("after step %q: %w", step.Name, err)
			}
		}
		for name, path := range step.Capture {
			body, _ := a.Body.(map[string]any)
			value := Object(body).Str(strings.Split(path, ".")...)
			if value == "" {
				return nil, fmt.Errorf("step %q: no %s in the answer: %d %v", step.Name, path, a.Code, a.Body)
			}
			vars[name] = value
		}
	}
	return answers, nil
}

// settled waits until the server's cache has what the step has written.
func settled(ctx context.Context, api *API, step Step, a Answer, vars Vars) error {
	body, _ := a.Body.(map[string]any)
	version := Object(body).Str("metadata", "resourceVersion")
	path, _, _ := strings.Cut(step.Path, "?")
	if version == "" || a.Code >= http.StatusBadRequest || strings.Contains(step.Path, "dryRun") {
		return nil
	}
	if step.Method == http.MethodPost {
		path += "/" + Object(body).Str("metadata", "name")
	}
	_, err := sendStep(ctx, api, Step{Path: path + "?resourceVersion=" + version}, vars)
	return err
}

// namespace is that of the script: its name as the label of a domain.
func (s Script) namespace() string {
	return strings.ToLower(strings.NewReplacer("/", "-", " ", "-", ".", "-").Replace(s.Name))
}

func runStep(ctx context.Context, api *API, step Step, vars Vars) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	for {
		a, err := sendStep(ctx, api, step, vars)
		if err != nil || step.Until == "" || strings.Contains(fmt.Sprint(a.Body, a.Header), step.Until) {
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("never answered %q, but %v", step.Until, a.Body)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Vars are the values of ${NAME} in a script.
type Vars map[string]string

var variable = regexp.MustCompile(`\$\{(\w+|[^{}$]+\*\d+)\}`)

// expand puts in the values that are known. ${x*100} is a hundred times the text x.
func (vars Vars) expand(text string) string {
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		name, times, repeated := strings.Cut(v[2:len(v)-1], "*")
		if n, err := strconv.Atoi(times); repeated && err == nil {
			return strings.Repeat(name, n)
		}
		if value, ok := vars[name]; ok {
			return value
		}
		return v
	})
}

func sendStep(ctx context.Context, api *API, step Step, vars Vars) (Answer, error) {
	header := http.Header{}
	for name, values := range step.Header {
		header[name] = nil
		for _, value := range values {
			header.Add(name, vars.expand(value))
		}
	}
	if step.Body != "" {
		header.Set("Content-Type", or(step.Type, "application/json"))
	}
	header.Set("Accept", or(step.Accept, "application/json"))
	if step.As != "" {
		header.Set("Impersonate-User", vars.expand(step.As))
	}
	resp, err := api.send(ctx, or(step.Method, http.MethodGet), vars.expand(step.Path), header,
		[]byte(vars.expand(step.Body)))
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	a := Answer{Code: resp.StatusCode, Header: map[string]any{"Audit-Id": resp.Header.Get("Audit-Id") != ""}}
	for _, name := range comparedHeaders {
		if v := strings.Join(resp.Header.Values(name), "; "); v != "" { // there may be several warnings
			a.Header[name] = v
		}
	}
	if resp.StatusCode == http.StatusOK && (step.Events > 0 || step.ToEnd || step.Through != "") {
		return a, a.readEvents(resp.Body, step.Events, step.Through)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	if json.Unmarshal(text, &a.Body) == nil {
	} else if strings.Contains(resp.Header.Get("Content-Type"), "yaml") {
		err = yaml.Unmarshal(text, &a.Body)
	} else {
		a.Body = string(bytes.TrimSpace(text))
	}
	if err != nil {
		return a, fmt.Errorf("decode %q: %w", text, err)
	}
	if len(step.Only) > 0 {
		keepOnly(a.Body, step.Only)
	}
	return a, nil
}

// keepOnly takes out of the lists of a discovery document what has none of the names.
func keepOnly(body any, names []string) {
	doc, _ := body.(map[string]any)
	for _, list := range []string{"items", "groups", "resources"} {
		entries, _ := doc[list].([]any)
		if entries == nil {
			continue
		}
		doc[list] = slices.DeleteFunc(entries, func(e any) bool {
			entry, _ := e.(map[string]any)
			return !slices.Contains(names, or(Object(entry).Str("name"), Object(entry).Str("metadata", "name")))
		})
	}
}

// readEvents reads max events, or those through one of the type last, or all until the stream ends.
func (a *Answer) readEvents(body io.Reader, max int, last string) error {
	d := json.NewDecoder(body)
	for max == 0 || len(a.Events) < max {
		var event struct{ Type string }
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			a.Ended = true
			return nil
		}
		if err == nil {
			err = json.Unmarshal(raw, &event)
		}
		if err != nil {
			return fmt.Errorf("read event %d: %w", len(a.Events)+1, err)
		}
		a.Events = append(a.Events, raw)
		if event.Type == last && last != "" {
			return nil
		}
	}
	return nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
