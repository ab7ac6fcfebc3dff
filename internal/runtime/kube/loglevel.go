package kube

// levelKey and levelWarn mark a log line as level WARN, which logr does not have.
const (
	levelKey  = "level"
	levelWarn = "WARN"
)

// Warn returns the values of a log line at level WARN: something does not work and may need a person, and skiff goes
// on. Pass the result to logr's Info; package cli removes the level from the values.
func Warn(values ...any) []any { return append([]any{levelKey, levelWarn}, values...) }

// Warns removes the level of Warn from the values of a line, and reports whether the level was there.
func Warns(values []any) (rest []any, warns bool) {
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == levelKey && values[i+1] == levelWarn {
			return append(values[:i:i], values[i+2:]...), true
		}
	}
	return values, false
}
