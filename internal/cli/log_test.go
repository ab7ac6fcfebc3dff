package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestALogLineThatQuotesAWholeObjectIsCut(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, err := (&logFlags{format: format}).logger(&out)
		if err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("x", 1_500_000)
		log.Error(errors.New(long), "reconcile failed", "value", long)
		log.Info("next")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || len(lines[0]) > 3*maxLogged || !strings.Contains(lines[0], "reconcile failed") {
			t.Errorf("%s: %d lines, the first of %d bytes", format, len(lines), len(lines[0]))
		}
		if format == "json" && !json.Valid([]byte(lines[0])) {
			t.Errorf("not JSON: %.200s", lines[0])
		}
	}
}
