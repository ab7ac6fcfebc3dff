package cli

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

const (
	// absentTimeout bounds a look at all namespaces; nothing waits for the end.
	absentTimeout = 30 * time.Second
	// absentEvery is how often the missing ones are looked for.
	absentEvery = 30 * time.Second
)

var namespaceResource = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// absent are the namespaces of --watch-namespaces that do not exist. The server answers a list there as in an empty
// namespace, so that a mistyped name would look as if there were nothing to do.
type absent struct {
	mu       sync.Mutex // guards problems
	problems []health.Problem
}

// attention returns a Problem for each of them.
func (a *absent) attention() []health.Problem {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.problems
}

// watch looks until each namespace exists, as far as the server says that, or ctx ends.
func (a *absent) watch(ctx context.Context, c *kube.Client, namespaces []string, log logr.Logger) {
	said := map[string]health.Problem{}
	for ctx.Err() == nil {
		missing, unknown := missingOf(ctx, c, namespaces)
		var problems []health.Problem
		for _, name := range missing {
			p, known := said[name]
			if !known {
				p = health.Problem{Reason: "NoSuchNamespace", Namespaces: []string{name},
					Public: "--watch-namespaces: namespace " + name + " does not exist",
					Next:   "skiff works in it once it does"}
				if question := askNamespace(ctx, c, name); question != "" {
					p.Next += "; " + question
				}
				said[name] = p
				log.Info(p.Text(time.Now()), kube.Warn()...)
			}
			problems = append(problems, p)
		}
		a.mu.Lock()
		a.problems = problems
		a.mu.Unlock()
		if namespaces = slices.Concat(missing, unknown); len(namespaces) == 0 {
			return
		}
		sleep(ctx, absentEvery)
	}
}

// missingOf returns which namespaces do not exist, and of which the server could not be asked. One that skiff has no
// right to read may exist.
func missingOf(ctx context.Context, c *kube.Client, namespaces []string) (missing, unknown []string) {
	ctx, cancel := context.WithTimeout(ctx, absentTimeout)
	defer cancel()
	for _, name := range namespaces {
		var found struct {
			kube.Meta `json:"metadata"`
		}
		switch err := c.Get(ctx, namespaceResource, kube.Key{Name: name}, &found); {
		case err == nil, kube.IsForbidden(err):
		case kube.IsNotFound(err):
			missing = append(missing, name)
		default: // another line says that the server does not answer
			unknown = append(unknown, name)
		}
	}
	return missing, unknown
}
