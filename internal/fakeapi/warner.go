package fakeapi

import (
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"skiff/internal/fakeapi/answer"
)

// warner adds warnings of plugins to an answer.
type warner struct {
	mu    sync.Mutex // guards what follows
	to    http.ResponseWriter
	seen  map[string]bool
	runes int
}

// Once the warnings of an answer are longer than maxWarnings, each is cut to maxWarning; in all there are no more than
// twice as many.
const maxWarnings, maxWarning = 4096, 256

// warn adds a warning, each text once.
func (w *warner) warn(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if runes := []rune(text); w.runes+len(runes) > maxWarnings && len(runes) > maxWarning {
		text = string(runes[:maxWarning])
	}
	if w.runes > 2*maxWarnings || w.seen[text] || strings.ContainsFunc(text, unicode.IsControl) {
		return
	}
	w.seen[text] = true
	w.runes += utf8.RuneCountInString(text)
	answer.Warn(w.to, text)
}
