package reload

import (
	"sync"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// maxSaid bounds the workloads whose Problems are remembered, and with those the lines.
const maxSaid = 1000

// sayer logs the Problems of workloads, where nobody looks at the page: a `skiff reload` serves none unless asked to,
// and records no Events.
type sayer struct {
	log  logr.Logger
	mu   sync.Mutex // guards said
	said map[id]string
}

// say logs the Problem of a workload when the reason is new, and the end. A wait passes and is no reason of a line,
// except for a missing source, whose name may be mistyped.
func (s *sayer) say(of id, p *health.Problem) {
	if s == nil || p != nil && p.Severity == health.Passing && p.Reason != missing {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.said[of]
	workload := ref{of.kind, of.Name}.String()
	switch {
	case p == nil && known:
		delete(s.said, of)
		s.log.Info("no longer a problem", "workload", workload, "reason", before)
	case p == nil, known && before == p.Reason, !known && len(s.said) >= maxSaid:
	default:
		if s.said == nil {
			s.said = map[id]string{}
		}
		s.said[of] = p.Reason
		s.log.Info("problem", kube.Warn("workload", workload, "reason", p.Reason, "message", p.Note())...)
	}
}
