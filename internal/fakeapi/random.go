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
