package kube

import (
	"net/http"
	"strings"
)

// warn hands each new text of the Warning headers (RFC 7234 section 5.5, KEP-1693) to OnWarning.
func (c *Client) warn(h http.Header) {
	if c.onWarning == nil {
		return
	}
	for _, line := range h.Values("Warning") {
		for _, text := range warningTexts(line) {
			if text = Printable(text, maxWarning); c.firstSeen(text) {
				c.onWarning(text)
			}
		}
	}
}

// maxWarnings and maxWarning bound the memory of texts and their length. An API server sends at most 4 KiB of
// warnings with an answer, and cuts them to 256 bytes each where they are more.
const (
	maxWarnings = 1000
	maxWarning  = 1 << 10
)

func (c *Client) firstSeen(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.warned[text]; ok || len(c.warned) >= maxWarnings {
		return false
	}
	c.warned[text] = struct{}{}
	return true
}

// warningTexts returns the texts of a header `299 - "text", 299 - "text"`; what is malformed is left out.
func warningTexts(line string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(line, `"`)
		if !ok || !strings.HasPrefix(strings.TrimLeft(line, " ,"), "299 ") {
			return out
		}
		var text strings.Builder
		i := 0
		for ; i < len(rest) && rest[i] != '"'; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
			}
			text.WriteByte(rest[i])
		}
		if i == len(rest) {
			return out // no closing quote
		}
		out = append(out, text.String())
		line = rest[i+1:]
	}
}
