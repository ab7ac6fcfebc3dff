// Command floor makes the requests that skiff's webserver controller makes, with net/http and encoding/json alone and
// as little besides as will do: what it costs is a measure for skiff that is the same on every machine. It lists and
// watches WebServers, Deployments and Services, makes two children of each WebServer, its status and an Event, and
// makes a Service that is deleted again. It is no controller: it compares nothing, tries nothing again, and ends with
// the first request that fails.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
)

// tokenVariable has the bearer token: a flag would show it to other users of the machine.
const tokenVariable = "FLOOR_TOKEN"

func main() {
	f := floor{known: map[string]webServer{}, jobs: make(chan job, maxJobs)}
	flag.StringVar(&f.server, "server", "", "URL of the API server")
	ca := flag.String("ca", "", "file with its certificate")
	flag.StringVar(&f.namespace, "namespace", "default", "namespace to work in")
	workers := flag.Int("workers", 10, "how many WebServers to work on at a time")
	probes := flag.String("probes", "127.0.0.1:8081", "address that answers /readyz once all is listed")
	flag.Parse()
	if err := f.run(*ca, *workers, *probes); err != nil {
		log.Fatal("floor: ", err)
	}
}

// floor is the program.
type floor struct {
	server, namespace string
	client            *http.Client
	jobs              chan job

	mu    sync.Mutex // guards known
	known map[string]webServer
}

// webServer is what is kept of one.
type webServer struct{ uid, image, version string }

// job is a WebServer to work on: all of it, or a Service that is gone.
type job struct {
	name        string
	serviceGone bool
}

// maxJobs is how many may wait: more than anybody measures.
const maxJobs = 100_000

// run goes on until something fails.
func (f *floor) run(ca string, workers int, probes string) error {
	text, err := os.ReadFile(ca)
	if err != nil {
		return fmt.Errorf("read the server's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	f.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true, DisableCompression: true}}
	failed := make(chan error)
	var listed sync.WaitGroup
	for _, kind := range []struct{ path, query string }{{f.path(webServers), ""}, {f.path(deployments), made},
		{f.path(services), made}} {
		listed.Add(1)
		go func() { failed <- f.follow(kind.path, kind.query, listed.Done) }()
	}
	go func() {
		listed.Wait()
		for range workers {
			go func() { failed <- f.work() }()
		}
		failed <- http.ListenAndServe(probes, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}()
	return <-failed
}

// The collections, below their group, and the query for what skiff has made.
const (
	webServers, deployments = "/apis/skiff.dev/v1alpha1/%s/webservers", "/apis/apps/v1/%s/deployments"
	services, events        = "/api/v1/%s/services", "/api/v1/%s/events"

	made = "&labelSelector=app.kubernetes.io/managed-by=skiff"
)

func (f *floor) path(collection string) string {
	return fmt.Sprintf(collection, "namespaces/"+f.namespace)
}

// object is what is read of all kinds.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
		OwnerReferences []struct {
			Name string `json:"name"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Image string `json:"image"`
		Ports []struct {
			NodePort int `json:"nodePort"`
		} `json:"ports"`
	} `json:"spec"`
}

// follow lists a collection, calls listed, and watches it.
func (f *floor) follow(path, query string, listed func()) error {
	resp, err := f.send(http.MethodGet, path+"?resourceVersion=0"+query, "", "")
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	err = json.NewDecoder(resp.Body).Decode(&list)
	resp.Body.Close()
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	for i := range list.Items {
		if query == "" {
			list.Items[i].Kind = "WebServer" // items of a list have no kind of their own
		}
		f.see("ADDED", &list.Items[i])
	}
	listed()
	resp, err = f.send(http.MethodGet, path+"?watch=true&resourceVersion="+list.Metadata.ResourceVersion+query, "", "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	frames := json.NewDecoder(resp.Body)
	for {
		var event struct {
			Type   string `json:"type"`
			Object object `json:"object"`
		}
		if err := frames.Decode(&event); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		f.see(event.Type, &event.Object)
	}
}

// see takes in an event.
func (f *floor) see(eventType string, o *object) {
	switch {
	case o.Kind == "WebServer":
		f.mu.Lock()
		f.known[o.Metadata.Name] = webServer{o.Metadata.UID, o.Spec.Image, o.Metadata.ResourceVersion}
		f.mu.Unlock()
		if eventType == "ADDED" {
			f.jobs <- job{name: o.Metadata.Name}
		}
	case o.Kind == "Service" && eventType == "DELETED" && len(o.Metadata.OwnerReferences) > 0:
		f.jobs <- job{name: o.Metadata.OwnerReferences[0].Name, serviceGone: true}
	}
}

// work works on one WebServer after the other.
func (f *floor) work() error {
	for j := range f.jobs {
		f.mu.Lock()
		w := f.known[j.name]
		f.mu.Unlock()
		if !j.serviceGone {
			err := f.write(http.MethodPost, f.path(deployments), jsonType, f.deployment(j.name, w), nil)
			if err != nil {
				return err
			}
		}
		var service object
		err := f.write(http.MethodPost, f.path(services), jsonType, f.service(j.name, w), &service)
		if err == nil && !j.serviceGone && len(service.Spec.Ports) > 0 {
			err = f.write(http.MethodPatch, f.path(webServers)+"/"+j.name+"/status", mergeType,
				f.status(j.name, service.Spec.Ports[0].NodePort), nil)
		}
		if err == nil {
			err = f.write(http.MethodPost, f.path(events), jsonType, f.event(j, w), nil)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("unreachable: nobody closes the channel")
}

const jsonType, mergeType = "application/json", "application/merge-patch+json"

// write sends an object and reads the answer into one, if it is not nil.
func (f *floor) write(method, path, contentType, body string, into *object) error {
	resp, err := f.send(method, path, contentType, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// send sends a request. An answer that is no success is an error.
func (f *floor) send(method, path, contentType, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, f.server+path,
		bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv(tokenVariable))
	req.Header.Set("Accept", jsonType)
	req.Header.Set("User-Agent", "skiff/floor")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return resp, nil
}
