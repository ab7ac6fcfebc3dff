// Package process runs programs of others so that they cost skiff nothing but their answer: what they start ends with
// them, what they print is bounded, and what looks like a secret is taken out of it.
//
// Which program runs, with what input and environment, and for how long, is the caller's: credential plugins in
// package kubeconfig, hooks in package call. Package exec copies output on goroutines that end with the program.
//
// [Contain] makes a panic an error, so that no part of skiff ends the process.
package process

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Run runs a command in a group of its own, and waits for its end.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return Wait(cmd)
}

// Output takes up to Limit bytes of what a program prints. More than that is an error, which closes the pipe that the
// program writes to.
type Output struct {
	Data  []byte // not a bytes.Buffer: its ReadFrom would take all
	Limit int
	Over  bool // there was more
}

var errTooMuch = errors.New("too much output")

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	keep := min(len(p), o.Limit-len(o.Data))
	o.Data = append(o.Data, p[:keep]...)
	if keep < len(p) {
		o.Over = true
		return keep, errTooMuch
	}
	return len(p), nil
}

// Lines hands over what is written to it line by line, without control characters and empty lines.
type Lines struct {
	Say      func(line string)
	MaxLine  int  // bytes of one line; the rest of it is dropped
	MaxTotal int  // bytes of all lines; 0: any number
	Indented bool // blanks at the beginning of a line stay
	part     []byte
	said     int
}

// Write implements io.Writer. It is called on a goroutine of package exec: a panic of what takes the lines is the
// error of the run.
func (l *Lines) Write(p []byte) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("log its messages: panic: %v", p)
		}
	}()
	for _, c := range p {
		switch {
		case c == '\n' || c == '\r':
			l.Flush()
		case len(l.part) == l.MaxLine || l.MaxTotal > 0 && l.said == l.MaxTotal:
		case c >= ' ' && c != 0x7f || c == '\t':
			l.part = append(l.part, c)
			l.said++
		}
	}
	return len(p), nil
}

// Flush hands over the last line, which does not end with a line break.
func (l *Lines) Flush() {
	text := strings.TrimRight(string(l.part), " \t")
	if !l.Indented {
		text = strings.TrimLeft(text, " \t")
	}
	if text != "" {
		l.Say(strings.ToValidUTF8(text, "?"))
	}
	l.part = l.part[:0]
}
