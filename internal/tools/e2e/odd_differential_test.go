package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// oddRequest is a request that no good client sends.
type oddRequest struct {
	method, path string // with the query
	header       http.Header
	body         string
}

func (o oddRequest) String() string {
	return fmt.Sprint(o.method, " ", o.path, " ", o.header, " ", o.body)
}

// oddLists reads the sections of testdata/odd.txt.
func oddLists(t *testing.T) map[string][]string {
	text := must(os.ReadFile(filepath.Join("testdata", "odd.txt")))(t)
	out, section := map[string][]string{}, ""
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "== "); ok {
			section = name
		} else if section != "" {
			value, err := strconv.Unquote(`"` + line + `"`)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			out[section] = append(out[section], value)
		}
	}
	return out
}

const dryDelete = `{"dryRun":["All"]}`

// oddRequests are all combinations that are sent. Nothing of them changes an object.
func oddRequests(t *testing.T) (out []oddRequest) {
	lists := oddLists(t)
	send := func(method, path, body, contentType string, header ...string) {
		h := http.Header{}
		if body != "" || contentType != "" {
			h["Content-Type"] = []string{contentType}
		}
		for i := 0; i+1 < len(header); i += 2 {
			h[header[i]] = append(h[header[i]], header[i+1])
		}
		out = append(out, oddRequest{method: method, path: path, header: h, body: body})
	}
	const asJSON = "application/json"
	for _, path := range lists["paths"] {
		query := "?timeoutSeconds=1"
		send("GET", path+query, "", "")
		for _, method := range []string{"HEAD", "OPTIONS", "TRACE", "PURGE"} {
			send(method, path+query, "", "")
		}
		send("POST", path+query+"&dryRun=All", "{}", asJSON)
		send("PUT", path+query+"&dryRun=All", "{}", asJSON)
		send("PATCH", path+query+"&dryRun=All", "{}", mergePatch)
		send("DELETE", path+query, dryDelete, asJSON)
	}
	for kind, list := range map[string]string{"ConfigMap": "/api/v1/namespaces/odd/configmaps",
		"WebServer": "/apis/skiff.dev/v1alpha1/namespaces/odd/webservers"} {
		object := map[string]string{"ConfigMap": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"}}`,
			"WebServer": webServerNamed("n")}[kind]
		for _, q := range lists["lists"] {
			send("GET", list+"?"+q, "", "")
			send("GET", list+"?watch=1&timeoutSeconds=1&"+q, "", "")
			send("DELETE", list+"?"+q, dryDelete, asJSON)
		}
		for _, q := range lists["queries"] {
			dry := "?dryRun=All&" + q
			if strings.HasPrefix(q, "dryRun") {
				dry = "?" + q
			}
			send("GET", list+"?"+q, "", "")
			send("GET", list+"/a?"+q, "", "")
			send("POST", list+dry, strings.Replace(object, `"n"`, `""`, 1), asJSON)
			send("PUT", list+"/none"+dry, object, asJSON)
			send("PATCH", list+"/none"+dry, "{}", mergePatch)
			send("PATCH", list+"/n"+dry, object, applyPatch)
			send("DELETE", list+"/none"+dry, "", "")
		}
		for _, accept := range lists["accepts"] {
			for _, path := range []string{list, list + "/a", list + "/none", list + "?watch=1&timeoutSeconds=1"} {
				send("GET", path, "", "", "Accept", accept)
			}
			send("POST", list+"?dryRun=All", "{}", asJSON, "Accept", accept)
			send("PATCH", list+"/a?dryRun=All", "{}", mergePatch, "Accept", accept)
		}
		for _, contentType := range lists["types"] {
			send("POST", list+"?dryRun=All", object, contentType)
			send("PUT", list+"/a?dryRun=All", object, contentType)
			send("PATCH", list+"/a?dryRun=All", object, contentType)
			send("DELETE", list+"/none?dryRun=All", dryDelete, contentType)
		}
		for _, body := range lists["bodies"] {
			send("POST", list+"?dryRun=All", body, asJSON)
			send("PUT", list+"/a?dryRun=All", body, asJSON)
			for _, patch := range []string{mergePatch, jsonPatch, strategicPatch, applyPatch} {
				send("PATCH", list+"/a?dryRun=All&fieldManager=m", body, patch)
			}
			send("DELETE", list+"/none?dryRun=All", body, asJSON)
		}
	}
	for _, header := range lists["headers"] {
		send("GET", "/api/v1/namespaces/odd/configmaps", "", "", strings.Split(header, "\t")...)
		send("GET", "/version", "", "", strings.Split(header, "\t")...)
	}
	return out
}

// sendOdd returns what an answer is, without its words: status, media type, kind and reason.
func sendOdd(ctx context.Context, api *API, o oddRequest) (string, error) {
	req, err := http.NewRequestWithContext(ctx, o.method, api.base+o.path, strings.NewReader(o.body))
	if err != nil {
		return "", err
	}
	if o.body == "" {
		req.Body = nil
	}
	req.Header = o.header.Clone()
	req.Header.Set("User-Agent", "e2e/test")
	if o.header["Authorization"] == nil {
		req.Header.Set("Authorization", "Bearer "+api.token)
	}
	resp, err := api.http.Transport.RoundTrip(req) // follows no redirects
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text := make([]byte, 64<<10)
	n, err := io.ReadAtLeast(resp.Body, text, len(text))
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return "", err
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" if there is none
	if o.method == http.MethodHead {
		mediaType = "" // a real server answers HEAD of metrics now with it, now without
	}
	var body struct{ Kind, Reason string }
	_ = json.Unmarshal(text[:n], &body) // what is not JSON has none of these
	return fmt.Sprint(resp.StatusCode, " ", mediaType, " ", body.Kind, " ", body.Reason), nil
}

// answerAll sends all requests, some at the same time.
func answerAll(t *testing.T, api *API, requests []oddRequest) []string {
	answers := make([]string, len(requests))
	next := make(chan int)
	var workers sync.WaitGroup
	for range 100 {
		workers.Go(func() {
			for i := range next {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				var err error
				if answers[i], err = sendOdd(ctx, api, requests[i]); err != nil { // a connection may break, once
					answers[i], err = sendOdd(ctx, api, requests[i])
				}
				if err != nil {
					answers[i] = "no answer: " + err.Error()
				}
				cancel()
			}
		})
	}
	for i := range requests {
		next <- i
	}
	close(next)
	workers.Wait()
	return answers
}

// The embedded server answers thousands of odd requests with the status, media type, kind and reason of a real server.
func TestOddRequestsAreAnsweredAsByTheRealServer(t *testing.T) {
	long(t)
	servers := []*API{ownCluster(t).Admin, startFake(t)}
	for _, api := range servers {
		installForScripts(t, api)
		for _, o := range []struct{ path, body string }{
			{"/api/v1/namespaces", `{"metadata":{"name":"odd"}}`},
			{"/api/v1/namespaces/odd/configmaps", oddMap("a")},
			{"/api/v1/namespaces/odd/configmaps", oddMap("b")},
			{"/apis/skiff.dev/v1alpha1/namespaces/odd/webservers", webServerNamed("a")},
			{"/apis/skiff.dev/v1alpha1/namespaces/odd/webservers", webServerNamed("b")},
		} {
			if _, err := api.Create(t.Context(), o.path, o.body); err != nil {
				t.Fatal(err)
			}
		}
	}
	requests := oddRequests(t)
	var answers [2][]string
	var both sync.WaitGroup
	for i, api := range servers {
		both.Go(func() { answers[i] = answerAll(t, api, requests) })
	}
	both.Wait()
	why, used := map[string]string{}, map[string]bool{}
	for _, line := range oddLists(t)["allowed"] {
		pattern, reason, _ := strings.Cut(line, "\t")
		why[pattern] = reason
	}
	for i, o := range requests {
		if answers[0][i] == answers[1][i] {
			continue
		}
		allowed := false
		for pattern := range why {
			if matches(pattern, o.String()) {
				allowed, used[pattern] = true, true
			}
		}
		if !allowed {
			t.Errorf("%.300s\n      real: %s\n      fake: %s", o, answers[0][i], answers[1][i])
		}
	}
	for pattern := range why {
		if !used[pattern] || why[pattern] == "" {
			t.Errorf("this allowed difference was not seen or has no reason, take it out: %s", pattern)
		}
	}
}

func oddMap(name string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","labels":{"l":"1"}},"data":{"k":"b"}}`
}

func webServerNamed(name string) string {
	return `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"` + name +
		`"},"spec":{"image":"nginx:1.23.1","replicas":2}}`
}
