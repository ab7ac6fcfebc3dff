package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
)

// Allowance permits one difference between the two servers, for a reason. Each that is not needed any more fails the
// test.
type Allowance struct {
	Script string `json:"script"` // "*" for all
	Step   string `json:"step"`   // "*" for all
	Path   string `json:"path"`   // of the difference; see matches
	Why    string `json:"why"`

	used atomic.Bool // scripts run at the same time
}

// ReadAllowances reads the list of allowed differences.
func ReadAllowances(path string) ([]*Allowance, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the allowed differences: %w", err)
	}
	var all []*Allowance
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("read the allowed differences in %s: %w", path, err)
	}
	for _, a := range all {
		if a.Script == "" || a.Step == "" || a.Path == "" || a.Why == "" {
			return nil, fmt.Errorf("read the allowed differences in %s: script, step, path and why are needed: "+
				"%s %s %s", path, a.Script, a.Step, a.Path)
		}
	}
	return all, nil
}

// Allows reports whether a difference is allowed, and remembers that the permission was needed.
func (a *Allowance) Allows(script, step string, d Difference) bool {
	ok := matches(a.Script, script) && matches(a.Step, step) && matches(a.Path, d.Path)
	if ok {
		a.used.Store(true)
	}
	return ok
}

// matches compares with a pattern in which * stands for any text, and | stands between alternatives.
func matches(pattern, text string) bool {
	pattern = strings.NewReplacer(`\*`, ".*", `\|`, "|").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text)
}
