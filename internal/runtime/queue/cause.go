package queue

import (
	"slices"
	"strconv"
	"strings"
)

// maxCauses bounds the causes kept for one run: more than is useful in a log line, and an object whose
// thousand children change at once must not cost a thousand strings.
const maxCauses = 8

// addCause records a reason for the pending run.
func (e *entry) addCause(cause string) {
	switch {
	case cause == "" || slices.Contains(e.causes, cause):
	case len(e.causes) < maxCauses:
		e.causes = append(e.causes, cause)
	default:
		e.more++
	}
}

// Cause returns the causes as one line: "Service default/web-service DELETED, Deployment default/web
// MODIFIED and 3 more".
func (i Item) Cause() string {
	text := strings.Join(i.Causes, ", ")
	if i.More > 0 {
		text += " and " + strconv.Itoa(i.More) + " more"
	}
	return text
}
