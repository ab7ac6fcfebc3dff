package process

import (
	"fmt"
	"runtime/debug"
)

// Panic is the error of a function that panicked.
type Panic struct {
	What  string // the function did: "renew the lease"
	Value any    // of the panic
	Stack []byte
}

// Error implements error. The stack is for a log.
func (p *Panic) Error() string { return fmt.Sprintf("%s: panic: %v", p.What, p.Value) }

// Contain returns the error of f, or the panic in f as a *[Panic]: no object and no answer of a server ends the
// process. The caller counts and logs the panic.
func Contain(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Panic{What: what, Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}
