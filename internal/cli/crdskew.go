package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/install/check"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

const (
	// skewTimeout bounds how long the definitions of the cluster are asked for: nothing waits for it.
	skewTimeout = 30 * time.Second
	// skewEvery is how often they are asked for again, as long as they lack something or the server does not answer.
	skewEvery = time.Minute
)

// skew is the fields that the definitions in the cluster lack, which the server drops.
type skew struct {
	mu       sync.Mutex // guards problems
	problems []health.Problem
}

// attention returns a Problem for each definition that lacks something.
func (s *skew) attention() []health.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems
}

// watch compares the definitions until no field is missing, as far as the server lets definitions be compared, or ctx
// ends, and logs each change of the missing fields.
func (s *skew) watch(ctx context.Context, c *kube.Client, log logr.Logger) {
	lacking, logged := map[string]string(nil), map[string]string{}
	for ctx.Err() == nil {
		var again bool
		lacking, again = containedLacking(ctx, c, log, lacking)
		var problems []health.Problem
		for _, name := range slices.Sorted(maps.Keys(lacking)) {
			fields := lacking[name]
			p := health.Problem{Reason: "OldDefinition", Next: "run `skiff crds install`",
				Public: "the cluster has an older definition of " + name + ", and the server drops the fields that " +
					"it lacks"}
			if fields != logged[name] {
				logged[name] = fields
				log.Info(p.Text(time.Now()), kube.Warn("fields", fields)...)
			}
			p.Public += ": " + fields
			problems = append(problems, p)
		}
		s.mu.Lock()
		s.problems = problems
		s.mu.Unlock()
		if len(problems) == 0 && !again {
			return
		}
		sleep(ctx, skewEvery)
	}
}

// containedLacking is lackingFields, whose panic costs the comparison and not the process: a server can answer
// anything.
func containedLacking(ctx context.Context, c *kube.Client, log logr.Logger, before map[string]string) (
	lacking map[string]string, again bool) {
	err := process.Contain("compare the custom resource definitions", func() error {
		lacking, again = lackingFields(ctx, c, log, before)
		return nil
	})
	if p := new(process.Panic); errors.As(err, &p) {
		log.Error(err, "the definitions of the cluster are not compared any more", "stack", string(p.Stack))
		return before, false
	}
	return lacking, again
}

// lackingFields returns the fields of this version that the definitions in the cluster lack, by the name of the
// definition, and whether another comparison may find more: the server did not answer, or refused the token. For a
// definition that cannot be compared now the result is as before. A definition that is not installed at all is for the
// controllers to report.
func lackingFields(ctx context.Context, c *kube.Client, log logr.Logger, before map[string]string) (
	lacking map[string]string, again bool) {
	ctx, cancel := context.WithTimeout(ctx, skewTimeout)
	defer cancel()
	all, err := definitions.All()
	if err != nil {
		log.Error(err, "cannot read the definitions of this binary")
		return nil, false
	}
	lacking = map[string]string{}
	for _, d := range all {
		fields, err := check.Lacking(ctx, c, d)
		switch {
		case err != nil && ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded:
			return nil, false // skiff stops
		case err != nil:
			log.V(1).Info("cannot compare a custom resource definition", "name", d.Name, "problem", err.Error())
			if before[d.Name] != "" {
				lacking[d.Name] = before[d.Name]
			}
			again = again || kube.IsTransient(err) || kube.IsUnauthorized(err)
		case fields != "":
			lacking[d.Name] = fields
		}
	}
	return lacking, again
}
