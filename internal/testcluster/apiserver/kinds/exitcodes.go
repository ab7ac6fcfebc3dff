package kinds

import (
	"fmt"

	"skiff/internal/testcluster/apiserver/obj"
)

// exitCodes requires that each rule of the failure policy of a Job names its exit codes once, and in order. s is about
// the spec of the Job.
func exitCodes(s scope) {
	for i, rule := range obj.Maps(s.o, "podFailurePolicy", "rules") {
		at := fmt.Sprintf("%s.podFailurePolicy.rules[%d].onExitCodes.values", s.at, i)
		values, ordered, last := obj.Slice(rule, "onExitCodes", "values"), true, int64(0)
		seen := map[int64]bool{}
		for j, v := range values {
			n, _ := v.(int64)
			if n == 0 && obj.String(rule, "onExitCodes", "operator") == "In" {
				s.invalid(fmt.Sprintf("%s[%d]", at, j), v, "must not be 0 for the In operator")
			}
			if seen[n] {
				s.add(obj.Duplicate(fmt.Sprintf("%s[%d]", at, j), v))
			}
			seen[n] = true
			ordered, last = ordered && (j == 0 || last <= n), n
		}
		if !ordered {
			s.invalid(at, values, "must be ordered")
		}
	}
}
