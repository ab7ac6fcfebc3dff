package kube

// levelKey and levelWarn are the value that gives a line of the log the level WARN, which logr does not have.
const (
	levelKey  = "level"
	levelWarn = "WARN"
)

// Warn returns the values of a line of the log at level WARN: something does not work that a person may have to look
// at, and skiff goes on. It is for logr's Info; package cli takes the level out of the values again.
func Warn(values ...any) []any { return append([]any{levelKey, levelWarn}, values...) }

// Warns takes the level of Warn out of the values of a line, and says whether it was there.
func Warns(values []any) (rest []any, warns bool) {
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == levelKey && values[i+1] == levelWarn {
			return append(values[:i:i], values[i+2:]...), true
		}
	}
	return values, false
}
