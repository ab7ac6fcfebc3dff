package e2e

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// canary is in every token and password that the suite makes up, so that one search finds any of them where none may
// be.
const canary = "canary-5d1f92"

// secretMarks are what gives a secret away: the canary as it is, the canary in base64 as in basic authentication,
// with any text before it, and the head that the tokens of service accounts have in common, {"alg": in base64.
func secretMarks() []string {
	marks := []string{canary, "eyJhbGciOi"}
	for before := range 3 {
		text := strings.Repeat("x", before) + canary
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		// The first and the last four characters depend on the neighbours.
		marks = append(marks, encoded[4:len(encoded)-4])
	}
	return marks
}

// Leaks returns each line below dir that a program has printed (*.log, *.out) and that has a secret in it, as
// FILE:LINE. With the logs of skiff it reads those of the control plane: the audit log would show a token in a URL.
func Leaks(dir string) (found []string, err error) {
	marks := secretMarks()
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(path); entry.IsDir() || ext != ".log" && ext != ".out" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("search for secrets: %w", err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(line, mark) }) {
				found = append(found, fmt.Sprintf("%s:%d", path, n))
			}
		}
		return nil
	})
	return found, err
}
