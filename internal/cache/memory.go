package cache

import "sync/atomic"

// memory is what all mirrors of a process take together, about. One mirror has a bound of its own, MaxBytes; a server
// could stay below that with each of them and still exhaust the process. The zero value is ready.
type memory struct{ taken atomic.Int64 }

// over says that all mirrors together take more than they may, and that one which takes so much is to end for it: with
// the default of maxBytes, half of the memory limit of the process. A small mirror does not end for what others take.
func (m *memory) over(maxBytes, one int64) bool {
	return m.taken.Load() > maxBytes+maxBytes/2 && one > maxBytes/8
}
