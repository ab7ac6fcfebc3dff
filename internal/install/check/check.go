// Package check finds out whether a cluster has all that skiff needs: an API server that answers, the custom resource
// definitions of this version, and each right that the controllers declare in each namespace that they are to work in.
//
// It only asks: what is missing is described, with the Role that would grant it, and an administrator applies it. It
// knows no controllers and no flags (package cli does), and prints nothing. Run asks with a few goroutines of its own
// and waits for them; it is on no event path.
package check

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/install/definitions"
	"skiff/internal/install/manifests"
	"skiff/internal/runtime/kube"
)

// The versions of Kubernetes that skiff is tested with, as minor versions of 1.
const (
	oldest = 32
	newest = 37
)

// Options say what to check.
type Options struct {
	Client      *kube.Client
	Definitions []definitions.Definition // of this version
	Rights      []kube.Right             // of the controllers
	ClusterWide []kube.Right             // beside those, to cluster-scoped resources
	Namespaces  []string                 // to work in; empty: all
	Templates   []manifests.Template     // of the controllers, about which there are admission policies
	// NeedPolicies counts an admission policy that is not in force as missing.
	NeedPolicies bool
	// Selector of namespaces to work in, "": none; and the rights that following it needs.
	Selector     string
	SelectRights []kube.Right
	// Election are the rights of leader election, in ElectionNamespace; none: it is not used.
	Election          []kube.Right
	ElectionNamespace string
}

// Report is what was found.
type Report struct {
	OK          bool         `json:"ok"` // nothing is missing
	Server      string       `json:"server"`
	Version     string       `json:"version"`
	Tested      bool         `json:"versionTested"` // skiff is tested with this version of Kubernetes
	LatencyMS   float64      `json:"latencyMs"`     // of a short request on an open connection
	User        string       `json:"user"`
	Definitions []Definition `json:"definitions"`
	Policies    []Policy     `json:"policies"`
	Absent      []Absent     `json:"absent,omitempty"`    // found by the command, which knows how to ask
	Selection   *Selection   `json:"selection,omitempty"` // of namespaces, with a selector
	Scopes      []Scope      `json:"rights"`
	// GrantsAll says that the server allows everything to everyone, so that it says nothing of rights.
	GrantsAll bool   `json:"grantsAll,omitempty"`
	Manifest  string `json:"manifest"` // grants what is missing, as YAML; "" if nothing is
	// Reader grants what this check would need to compare whole definitions, as YAML; "" if it could.
	Reader string `json:"readerManifest,omitempty"`
}

// Absent is a namespace to work in that does not exist.
type Absent struct {
	Namespace string `json:"namespace"`
	Detail    string `json:"detail"` // the next step
}

// TestedVersions is the range that Tested is about.
func TestedVersions() string { return fmt.Sprintf("1.%d to 1.%d", oldest, newest) }

// Scope is what the user may do in one namespace.
type Scope struct {
	Namespace string    `json:"namespace"` // "": all
	For       string    `json:"for"`       // "the controllers", "leader election" or "the namespace selector"
	Checked   int       `json:"checked"`   // verbs on resources
	Missing   []Missing `json:"missing"`
}

// Missing is what the user may not do to a resource.
type Missing struct {
	Resource string   `json:"resource"` // "deployments.apps", "redis.skiff.dev/status"
	Verbs    []string `json:"verbs"`
}

// Run checks all of it. An error means that it could not find out.
func Run(ctx context.Context, o Options) (Report, error) {
	r := Report{OK: true, Server: o.Client.Server(), Definitions: []Definition{}, Scopes: []Scope{}}
	if err := r.connect(ctx, o.Client); err != nil {
		return Report{}, err
	}
	subject, err := whoAmI(ctx, o.Client)
	if err != nil {
		return Report{}, err
	}
	r.User = subject.user
	if r.Definitions, err = compareAll(ctx, o); err != nil {
		return Report{}, err
	}
	for _, d := range r.Definitions {
		r.OK = r.OK && d.State == Installed
	}
	if slices.ContainsFunc(r.Definitions, func(d Definition) bool { return d.Fields }) {
		r.Reader = grant(subject, "", []kube.Right{{Resource: definitions.Resource, Verbs: []string{"get"},
			Why: "to compare definitions (skiff check)"}})
	}
	if r.Policies, err = policies(ctx, o); err != nil {
		return Report{}, err
	}
	for _, p := range r.Policies {
		r.OK = r.OK && (p.State == Installed || !o.NeedPolicies)
	}
	if r.GrantsAll, err = grantsAll(ctx, o.Client); err != nil {
		return Report{}, err
	}
	if err := r.scopes(ctx, o, subject); err != nil {
		return Report{}, err
	}
	if len(o.Election) > 0 {
		scope := Scope{Namespace: o.ElectionNamespace, For: "leader election"}
		if err := r.rights(ctx, o.Client, subject, scope, o.Election); err != nil {
			return Report{}, err
		}
	}
	return r, nil
}

// latencyProbes is how often the latency is measured, after a request that opens the connection.
const latencyProbes = 5

// connect asks for the version, and how long an answer takes: the median of a few.
func (r *Report) connect(ctx context.Context, c *kube.Client) error {
	var version struct {
		GitVersion string `json:"gitVersion"`
		Major      string `json:"major"`
		Minor      string `json:"minor"`
	}
	var took []time.Duration
	for range latencyProbes + 1 {
		start := time.Now()
		body, err := c.Raw(ctx, http.MethodGet, "/version", nil)
		if err != nil {
			return err
		}
		took = append(took, time.Since(start))
		if err := json.Unmarshal(body, &version); err != nil || version.GitVersion == "" {
			return fmt.Errorf("%s/version: the response is not that of an API server: check the address, and "+
				"whether a proxy answers instead", c.Server())
		}
	}
	took = took[1:]
	slices.Sort(took)
	r.LatencyMS = float64(took[len(took)/2].Microseconds()) / 1000
	r.Version = kube.Printable(version.GitVersion, maxName)
	minor, err := strconv.Atoi(strings.TrimRight(version.Minor, "+"))
	r.Tested = err == nil && version.Major == "1" && minor >= oldest && minor <= newest
	return nil
}

// maxName bounds a name that the server gives.
const maxName = 300
