package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Scope is a test with a namespace of its own: short words for what a user would do and look at there. Its methods
// end the test when the thing asked for fails for another reason than the one under test.
type Scope struct {
	testing.TB
	c       *Cluster
	kubectl Kubectl
	NS      string
}

// NewScope makes the namespace, and deletes it when the test is over. When the test failed, what is in the namespace
// and the logs are printed first.
func NewScope(t testing.TB, c *Cluster, kubectl Kubectl) *Scope {
	t.Helper()
	s := &Scope{TB: t, c: c, kubectl: kubectl, NS: namespaceName(t.Name())}
	if _, err := c.Admin.Create(t.Context(), "/api/v1/namespaces",
		Object{"metadata": map[string]any{"name": s.NS}}); err != nil {
		t.Fatalf("create the namespace: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.explain()
		}
		// In the background, and not with t.Context(), which is over by now.
		if err := s.deleteCustom(noContext); err != nil {
			t.Error(err)
		}
		if err := c.Admin.Delete(noContext, "/api/v1/namespaces/"+s.NS); err != nil {
			t.Errorf("delete the namespace: %v", err)
		}
	})
	return s
}

// deleteCustom deletes skiff's custom resources. That of the namespace would do so, too; but where a CRD has just been
// made again, as some tests do, the namespace controller may not know it yet, and what it overlooks outlives the
// namespace (seen on v1.36). No skiff runs any more that would remove its finalizers.
func (s *Scope) deleteCustom(ctx context.Context) error {
	nothing := func(err error) bool { // 429: of a CRD that was made a moment ago
		return IsCode(err, http.StatusNotFound) || IsCode(err, http.StatusTooManyRequests)
	}
	for _, plural := range []string{"webservers", "redis", "restarttriggers"} {
		all := "/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/" + plural
		if err := s.c.Admin.Delete(ctx, all); err != nil && !nothing(err) {
			return err
		}
		held, err := s.c.Admin.Get(ctx, all)
		if err != nil && !nothing(err) {
			return err
		}
		for _, o := range held.List("items") {
			_, err := s.c.Admin.Merge(ctx, all+"/"+o.Name(), `{"metadata":{"finalizers":null}}`)
			if err != nil && !nothing(err) {
				return err
			}
		}
	}
	return nil
}

// explain prints what one looks at first.
func (s *Scope) explain() {
	r, err := s.kubectl.Run(noContext, "", "-n", s.NS, "get", "deployments,services,replicasets,pods", "-o", "wide")
	s.Logf("namespace %s:\n%s%v", s.NS, r, err)
	r, err = s.kubectl.Run(noContext, "", "-n", s.NS, "get", "webservers", "-o", "yaml")
	s.Logf("webservers: %s%v", r, err)
	s.Log(s.c.Tails(15))
}

// namespaceName is the end of the test's name as a DNS label, and something random.
func namespaceName(test string) string {
	test = test[strings.LastIndexByte(test, '/')+1:]
	var b strings.Builder
	for i, r := range test {
		switch {
		case r >= 'A' && r <= 'Z' && i > 0:
			b.WriteByte('-')
			fallthrough
		case r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteString(strings.ToLower(string(r)))
		}
	}
	name := b.String()
	return name[:min(len(name), 40)] + "-" + strings.ToLower(rand.Text()[:5])
}

// Kubectl runs kubectl in the namespace and returns its stdout; an exit code other than 0 ends the test.
func (s *Scope) Kubectl(args ...string) string {
	s.Helper()
	r := s.TryKubectl(args...)
	if r.Code != 0 {
		s.Fatalf("kubectl %s: %v", strings.Join(args, " "), r)
	}
	return r.Stdout
}

// TryKubectl runs kubectl in the namespace; any exit code is fine.
func (s *Scope) TryKubectl(args ...string) Result {
	s.Helper()
	r, err := s.kubectl.Run(s.Context(), "", append([]string{"-n", s.NS}, args...)...)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// Apply is kubectl apply of a manifest.
func (s *Scope) Apply(manifest string) {
	s.Helper()
	r, err := s.kubectl.Run(s.Context(), manifest, "-n", s.NS, "apply", "-f", "-")
	if err != nil || r.Code != 0 {
		s.Fatalf("kubectl apply: %v %v\n%s", err, r, manifest)
	}
}

// WebServerManifest is a WebServer with a spec in YAML flow style, such as `image: nginx:1, replicas: 2`.
func WebServerManifest(name, spec string) string {
	return fmt.Sprintf("apiVersion: skiff.dev/v1alpha1\nkind: WebServer\nmetadata: {name: %s}\nspec: {%s}\n", name,
		spec)
}

// WebServer reads a WebServer; nil if there is none.
func (s *Scope) WebServer(name string) Object { s.Helper(); return s.get(s.webServerPath(name)) }

// Deployment reads a Deployment; nil if there is none.
func (s *Scope) Deployment(name string) Object { s.Helper(); return s.get(s.deploymentPath(name)) }

// Service reads a Service; nil if there is none.
func (s *Scope) Service(name string) Object { s.Helper(); return s.get(s.servicePath(name)) }

func (s *Scope) webServerPath(name string) string {
	return "/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/webservers/" + name
}

func (s *Scope) deploymentPath(name string) string {
	return "/apis/apps/v1/namespaces/" + s.NS + "/deployments/" + name
}

func (s *Scope) servicePath(name string) string {
	return "/api/v1/namespaces/" + s.NS + "/services/" + name
}

func (s *Scope) get(path string) Object {
	s.Helper()
	obj, err := s.c.Admin.Get(s.Context(), path)
	if IsCode(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return obj
}

// Merge patches an object as another client than skiff.
func (s *Scope) Merge(path, patch string) {
	s.Helper()
	if _, err := s.c.Admin.Merge(s.Context(), path, patch); err != nil {
		s.Fatal(err)
	}
}
