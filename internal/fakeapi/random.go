package fakeapi

import (
	"crypto/rand"
	"encoding/hex"
)

// randN returns a number below n that follows from Options.Seed.
func (s *Server) randN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand
	return hex.EncodeToString(b)
}

// newUID returns a random (version 4) UUID.
func newUID() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
