package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
)

// demoNamespace is where the tour takes place. The names in it are those of the examples.
const demoNamespace = "default"

var (
	webServers = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	redises    = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	triggers   = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "restarttriggers",
		Kind: "RestartTrigger"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
	pods        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	eventsV1    = kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}
)

// demoKinds are the kinds that the tour shows, in this order. In the line of an object {a b} stands for its field a.b
// and {ready} for what its conditions say.
var demoKinds = []struct {
	resource kube.Resource
	line     string
}{
	{webServers, "{ready}  image {spec image}  pods ready {status readyReplicas} of {spec replicas}, " +
		"updated {status updatedReplicas}  node port {status nodePort}"},
	{redises, "{ready}  port {spec port}  pods ready {status readyReplicas} of {spec num}, " +
		"updated {status updatedReplicas}  finalizer {metadata finalizers 0}"},
	{triggers, "{ready}  restarts {status restarts}  " +
		"last for {status lastRestart reason} of pod {status lastRestart pod}"},
	{services, "cluster IP {spec clusterIP}  node port {spec ports 0 nodePort}"},
	{deployments, "image {spec template spec containers 0 image}  ready {status readyReplicas} of {spec replicas}  " +
		demoNote + ": {metadata annotations " + demoNote + "}  " +
		"restarted at {spec template metadata annotations kubectl.kubernetes.io/restartedAt}"},
	{pods, "{ready}  {status podIP}  {spec containers 0 image}"},
}

// snapshot is what a user sees of the cluster, and what skiff has logged since the step began.
type snapshot struct {
	lines   []string          // what there is, to be shown and to be compared
	ids     map[string]string // uid by "pod/cache-0"
	events  []string
	logged  string // what skiff wrote
	cause   string // of the first of these writes
	failure string // the last error that skiff has logged
}

// look reads a snapshot from the server.
func (t *tour) look(ctx context.Context) (snapshot, error) {
	s := snapshot{ids: map[string]string{}}
	for _, kind := range demoKinds {
		list, err := t.list(ctx, kind.resource)
		if err != nil {
			return s, err
		}
		for _, o := range list {
			name := strings.ToLower(kind.resource.Kind) + "/" + at(o, "metadata name")
			if name == "service/kubernetes" { // which the server itself makes
				continue
			}
			s.lines = append(s.lines, name+"  "+fill(kind.line, o))
			s.ids[name] = at(o, "metadata uid")
		}
	}
	if s.lines == nil {
		s.lines = []string{"nothing is left"}
	}
	list, err := t.list(ctx, eventsV1)
	for _, e := range list {
		s.events = append(s.events, fill("{regarding kind}/{regarding name}  {reason}  {note}", e))
	}
	s.logged, s.cause, s.failure = t.log.read()
	return s, err
}

func (t *tour) list(ctx context.Context, r kube.Resource) ([]object, error) {
	text, err := t.client.Raw(ctx, http.MethodGet, r.Root()+"/namespaces/"+demoNamespace+"/"+r.Plural, nil)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.Plural, err)
	}
	var list struct{ Items []object }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read list of %s: %w", r.Plural, err)
	}
	return list.Items, nil
}

// newEvents returns the Events of a reason that were not there before.
func (s snapshot) newEvents(before snapshot, reason string) []string {
	return slices.DeleteFunc(slices.Clone(s.events), func(e string) bool {
		return !strings.Contains(e, "  "+reason+"  ") || slices.Contains(before.events, e)
	})
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// fill puts the fields of an object in the place of their names.
func fill(line string, o object) string {
	return placeholder.ReplaceAllStringFunc(line, func(name string) string {
		if name != "{ready}" {
			return at(o, strings.Trim(name, "{}"))
		}
		seen := at(o, "status observedGeneration")
		if isReady(o) && at(o, "metadata deletionTimestamp") == "-" &&
			(seen == "-" || seen == at(o, "metadata generation")) {
			return "Ready"
		}
		return "not ready"
	})
}

// at returns a field as text, "-" where it is not set.
func at(o object, names string) string {
	v := field(o, names)
	if v == nil {
		return "-"
	}
	return fmt.Sprint(v)
}

// field returns the field that names separated by spaces lead to, nil where it is not set. 0 is the first of a list.
func field(o object, names string) any {
	var v any = o
	for name := range strings.FieldsSeq(names) {
		if list, ok := v.([]any); ok && name == "0" && len(list) > 0 {
			v = list[0]
			continue
		}
		o, _ := v.(object)
		v = o[name]
	}
	return v
}

// isReady reports whether the condition Ready of an object is True.
func isReady(o object) bool {
	conditions, _ := field(o, "status conditions").([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(object)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}
