package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"skiff/internal/hooks/reconcile"
	"skiff/internal/runtime/events"
)

// newBrake returns the brake of the controller, whose sync hook is given.
func (s *supervised) newBrake(sync *hook) (*reconcile.Brake, error) {
	definition := *s.spec
	definition.Object, definition.Labels, definition.Paused = nil, nil, false
	definition.UID, definition.Source, definition.AllowDeletes = "", "", ""
	text, err := json.Marshal(definition)
	if err != nil {
		return nil, fmt.Errorf("encode the controller: %w", err)
	}
	return &reconcile.Brake{Allowed: s.spec.AllowDeletes,
		Version: func() string {
			release := sync.release()
			if release == "" { // nobody says when the hook is another: what is allowed today is not for ever
				release = time.Now().UTC().Format(time.DateOnly)
			}
			sum := sha256.Sum256(append([]byte(release), text...))
			return hex.EncodeToString(sum[:4]) // short enough to be typed
		},
		Tell: func(problem string) {
			s.tell(events.Warning, reconcile.DeletesHeld, "the controller "+problem)
		}}, nil
}
