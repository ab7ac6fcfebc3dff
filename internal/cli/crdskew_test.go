package cli

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// change installs the definitions and changes that of WebServers: f gets its first version.
func (c *cluster) change(f func(version object) (versions []any)) {
	c.t.Helper()
	noError(c.t, definitions.Ensure(c.t.Context(), c.client, 10*time.Second))
	var live object
	noError(c.t, c.client.Get(c.t.Context(), crdResource, kube.Key{Name: "webservers.skiff.dev"}, &live))
	version := lookup(live, "spec", "versions").([]any)[0].(object)
	c.patch(crdResource, "", "webservers.skiff.dev", object{"spec": object{"versions": f(version)}})
}

// skew returns what is logged when skiff starts and the definitions are compared once.
func (c *cluster) skew(verbosity int) string {
	c.t.Helper()
	var out bytes.Buffer
	log, err := (&logFlags{format: "json", verbosity: verbosity}).logger(&out)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(c.t.Context())
	var s skew
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.watch(ctx, c.client, log)
	}()
	for len(s.attention()) == 0 && !closed(ended) {
		runtime.Gosched()
	}
	stop()
	<-ended
	return out.String()
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestAnOlderDefinitionInTheClusterIsNamedWithTheFieldsThatItLacks(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	if said := c.skew(1); said != "" {
		t.Errorf("where nothing is installed: %s", said)
	}
	c.change(func(version object) []any {
		spec := lookup(version, "schema", "openAPIV3Schema", "properties", "spec", "properties").(object)
		delete(spec, "replicas")
		return []any{version}
	})
	said := c.skew(0)
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, "webservers.skiff.dev") ||
		!strings.Contains(said, `"fields":"spec.replicas"`) || !strings.Contains(said, "skiff crds install") {
		t.Errorf("one field is missing: %s", said)
	}
	noError(t, definitions.Ensure(t.Context(), c.client, 10*time.Second))
	if said := c.skew(1); said != "" {
		t.Errorf("after the installation: %s", said)
	}
}

func TestADefinitionThatCannotBeComparedIsDebugDetail(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.down()
	for verbosity, want := range []string{"", "cannot compare a custom resource definition"} {
		var out bytes.Buffer
		log := must((&logFlags{format: "json", verbosity: verbosity}).logger(&out))(t)
		if _, again := lackingFields(t.Context(), c.client, log, nil); !again {
			t.Error("without a server the definitions are not compared again")
		}
		if said := out.String(); !strings.Contains(said, want) || (said == "") != (want == "") {
			t.Errorf("without a server, with -v %d: %s", verbosity, said)
		}
	}
}

func TestDefinitionsAreComparedOnceTheServerAnswers(t *testing.T) {
	for name, fault := range map[string]apiserver.Fault{"no answer": {Cut: apiserver.CutBefore},
		"unavailable": {Reply: &apiserver.Reply{Code: http.StatusServiceUnavailable}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := apiserver.New(apiserver.Options{})
				defer api.Close()
				pipe := api.ListenPipe()
				defer pipe.Close()
				client := must(kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial}))(t)
				defer client.Close()
				(&cluster{t: t, api: api, client: client}).change(func(version object) []any {
					delete(lookup(version, "schema", "openAPIV3Schema", "properties", "spec", "properties").(object),
						"replicas")
					return []any{version}
				})
				answer := api.Inject(fault)
				ctx, stop := context.WithCancel(t.Context())
				var s skew
				ended := make(chan struct{})
				go func() { defer close(ended); s.watch(ctx, client, logr.Discard()) }()
				time.Sleep(10 * time.Minute)
				if asked := len(api.Requests()); asked > 100 {
					t.Errorf("%d requests in ten minutes", asked)
				}
				answer()
				time.Sleep(2 * skewEvery)
				if lines := s.attention(); len(lines) != 1 || !strings.Contains(lines[0].Public, "spec.replicas") {
					t.Errorf("after the server came back: %q", lines)
				}
				stop()
				<-ended
			})
		})
	}
}

func TestADefinitionThatLackedSomethingStaysNamedWhileTheServerIsAway(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.down()
	before := map[string]string{"webservers.skiff.dev": "spec.replicas"}
	if now, _ := lackingFields(t.Context(), c.client, logr.Discard(), before); !maps.Equal(now, before) {
		t.Errorf("what was found before became %q", now)
	}
}

func TestCRDsInstallKeepsAVersionInWhichObjectsMayBeStored(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	all := must(definitions.All())(t)
	crd := all[len(all)-1]
	versions := lookup(crd.Object, "spec", "versions").([]any)
	newer := maps.Clone(versions[0].(object))
	versions[0].(object)["storage"], newer["name"] = false, "v9"
	crd.Object["spec"].(object)["versions"] = append(versions, newer)
	c.create(crdResource, "", crd.Object)
	noError(t, definitions.WaitEstablished(t.Context(), c.client, crd.Name))
	before := c.api.Revision()
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitFailed, "install CRD "+crd.Name+": the cluster may "+
		"have objects stored as v9, which this skiff does not define, so nothing is changed")
	skiff(t, "crds", "diff", "--server", c.url()).Want(t, ExitFailed, "installing CRD "+crd.Name+
		" would be refused: the cluster may have objects stored as v9")
	if c.api.Revision() != before {
		t.Error("it has written something")
	}
}

func TestAPanicWhileDefinitionsAreComparedEndsOnlyTheComparison(t *testing.T) {
	var logged strings.Builder
	log := funcr.New(func(_, args string) { logged.WriteString(args + "\n") }, funcr.Options{})
	new(skew).watch(t.Context(), nil, log) // without a client
	if !strings.Contains(logged.String(), "are not compared any more") {
		t.Errorf("logged %s", logged.String())
	}
}
