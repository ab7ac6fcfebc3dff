package patch

import (
	"fmt"
	"io"
	"strings"
)

// Estimated memory of values in addition to their texts.
const (
	textMemory = 16     // a string
	itemMemory = 2 * 16 // an interface value in a list, and as much again while the list grows
	listMemory = 24
	// A map has room for eight members, and then for twice as many again and again.
	mapMemory    = 48 + 8*(16+16) + 8
	memberMemory = 2 * (16 + 16 + 1)
	objectMemory = 48
)

// memberUses is the memory of an object's n-th member in addition to the value.
func memberUses(n int, name int) int {
	switch {
	case n == 1:
		return mapMemory + name
	case n <= 8:
		return name
	}
	return memberMemory + name
}

// Measure returns the approximate memory of DecodeWithin for a value, without taking any, and an error for a value
// nested deeper than depth or larger than limit. For invalid JSON the result is the most DecodeWithin takes before
// failing.
func Measure(data []byte, limit, depth int) (bytes int, err error) {
	m := measure{reader: reader{data: data}, limit: limit, deepest: depth}
	if err := m.value(); err != nil {
		return 0, fmt.Errorf("decode JSON: %w", err)
	}
	return m.memory, nil
}

type measure struct {
	reader
	limit, memory, depth, deepest int
}

// tooMuch is the error of a value larger than limit.
func tooMuch(limit int) error {
	return fmt.Errorf("%w: it would take more than %d MiB of memory", ErrTooComplex, limit>>20)
}

func (m *measure) uses(bytes int) error {
	if m.memory += bytes; m.memory > m.limit {
		return tooMuch(m.limit)
	}
	return nil
}

func (m *measure) value() error {
	switch c := m.peek(); c {
	case '"':
		n, err := m.skipText()
		if err != nil {
			return err
		}
		return m.uses(textMemory + n)
	case '{', '[':
		if m.depth == m.deepest {
			return tooDeep(m.deepest)
		}
		m.depth++
		defer func() { m.depth-- }()
		m.pos++
		if c == '[' {
			return m.list()
		}
		return m.object()
	}
	from := m.pos
	for m.pos < len(m.data) && strings.IndexByte(",]} \n\t\r", m.data[m.pos]) < 0 {
		m.pos++
	}
	if m.pos == from {
		return m.unexpected("where a value should be")
	}
	return nil
}

func (m *measure) list() error {
	for first := true; ; first = false {
		if ok, err := m.more(']', first); err != nil {
			return err
		} else if !ok {
			return m.uses(listMemory)
		}
		if err := m.value(); err != nil {
			return err
		}
		if err := m.uses(itemMemory); err != nil {
			return err
		}
	}
}

func (m *measure) object() error {
	for n := 1; ; n++ {
		if ok, err := m.more('}', n == 1); err != nil {
			return err
		} else if !ok {
			return m.uses(objectMemory)
		}
		if m.peek() != '"' {
			return m.unexpected("where a name should be")
		}
		name, err := m.skipText()
		if err != nil {
			return err
		}
		if m.peek() != ':' {
			return m.unexpected("where a colon should be")
		}
		m.pos++
		if err := m.value(); err != nil {
			return err
		}
		if err := m.uses(memberUses(n, name)); err != nil {
			return err
		}
	}
}

// skipText skips a string, starting at the opening quote, and returns the length, escapes included.
func (r *reader) skipText() (length int, err error) {
	r.pos++
	for from := r.pos; r.pos < len(r.data); r.pos++ {
		switch r.data[r.pos] {
		case '"':
			r.pos++
			return r.pos - 1 - from, nil
		case '\\':
			r.pos++
		}
	}
	r.pos = len(r.data)
	return 0, io.ErrUnexpectedEOF
}
