package kube

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Digest identifies a value that is not kept: the first 16 bytes of the value's SHA-256.
type Digest [16]byte

// NamedDigest is the digest of one value of a map.
type NamedDigest struct {
	Name   string
	Digest Digest
}

// Digests is declared for a map of texts whose values are not to be in memory, such as data of a ConfigMap: the
// digests of the values, sorted by name. A value is hashed while being read from a list or watch, and the buffers of
// the stream are cleared behind the reader; null is the empty value. The digests of a map are the same from JSON and
// from protobuf.
//
// The metadata is no part of this: kubectl's last-applied annotation has the values of a Secret once more, and so
// the struct declares Meta, not MetaAnnotated. An answer to Get is in memory as a whole until decoded.
type Digests []NamedDigest

// EncodedDigests is Digests for a map of bytes: data of a Secret, binaryData of a ConfigMap. JSON has the values in
// base64; the digests are of the decoded bytes.
type EncodedDigests []NamedDigest

// digestSize is the memory of a NamedDigest besides the name.
var digestSize = int(reflect.TypeFor[NamedDigest]().Size())

// isDigests reports whether t is Digests or EncodedDigests.
func isDigests(t reflect.Type) bool {
	return t == reflect.TypeFor[Digests]() || t == reflect.TypeFor[EncodedDigests]()
}

// withDigests caches holdsDigests, for the answers of writes.
var withDigests sync.Map // reflect.Type -> bool

// holdsDigests reports whether values of t have fields of digests.
func holdsDigests(t reflect.Type) bool {
	if holds, ok := withDigests.Load(t); ok {
		return holds.(bool)
	}
	holds := digestsWithin(t, nil)
	withDigests.Store(t, holds)
	return holds
}

// digestsWithin is holdsDigests for a type within the types outer.
func digestsWithin(t reflect.Type, outer []reflect.Type) bool {
	switch {
	case isDigests(t):
		return true
	case slices.Contains(outer, t): // a type may contain itself
		return false
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice:
		return digestsWithin(t.Elem(), append(outer, t))
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if digestsWithin(t.Field(i).Type, append(outer, t)) {
				return true
			}
		}
	}
	return false
}

// sortedDigests sorts all by name, keeps the last of equal names, and returns a slice of the exact size; none: nil.
func sortedDigests(all []NamedDigest) []NamedDigest {
	if len(all) == 0 {
		return nil
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b NamedDigest) int { return strings.Compare(a.Name, b.Name) })
	all = slices.CompactFunc(all, func(a, b NamedDigest) bool { return a.Name == b.Name })
	return append(make([]NamedDigest, 0, len(all)), all...)
}

// digester hashes one value after the other, in pieces. Nothing of a value stays in the digester behind the end.
type digester struct {
	hash    hash.Hash
	encoded bool // the pieces are base64
	padded  bool // the base64 has ended
	bad     bool // not base64
	n       int
	// chunk collects the pieces. The size is whole blocks of SHA-256, in base64 too, so that the hash has no more than
	// the end of a value in its own buffer.
	chunk [1024]byte
	plain [1024]byte // decoded base64
	sum   [sha256.Size]byte
}

// begin starts a value.
func (d *digester) begin(encoded bool) {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	d.encoded, d.padded, d.bad = encoded, false, false
}

// add takes the next piece of a value.
func (d *digester) add(b []byte) {
	for len(b) > 0 {
		n := copy(d.chunk[d.n:], b)
		b = b[n:]
		if d.n += n; d.n == len(d.chunk) {
			d.flush()
		}
	}
}

// addRune takes a character. Base64 may have line breaks anywhere.
func (d *digester) addRune(r rune) {
	if !d.encoded || r != '\n' && r != '\r' {
		var b [utf8.UTFMax]byte
		d.add(b[:utf8.EncodeRune(b[:], r)])
	}
}

func (d *digester) flush() {
	b := d.chunk[:d.n]
	d.n = 0
	if d.encoded && len(b) > 0 {
		n, err := base64.StdEncoding.Decode(d.plain[:], b)
		d.bad = d.bad || d.padded || err != nil
		d.padded = b[len(b)-1] == '='
		b = d.plain[:n]
	}
	d.hash.Write(b)
}

// zeros overwrite the buffer of a hash, which holds less than a block.
var zeros [sha256.BlockSize - 1]byte

// end returns the digest of the value; false: the value is not base64.
func (d *digester) end() (sum Digest, ok bool) {
	d.flush()
	copy(sum[:], d.hash.Sum(d.sum[:0]))
	clear(d.chunk[:])
	clear(d.plain[:])
	d.hash.Reset()
	d.hash.Write(zeros[:])
	d.hash.Reset()
	return sum, !d.bad
}

// digestsPlan is the plan of Digests, or of EncodedDigests.
func digestsPlan(encoded bool) plan {
	return func(s *scanner, v reflect.Value) error { return decodeDigests(s, v, encoded) }
}

// decodeDigests admits names and digests alone to the object, whatever the length of the values.
func decodeDigests(s *scanner, v reflect.Value, encoded bool) error {
	if c, err := s.peek(); err != nil || c != '{' && c != 'n' {
		return cmp.Or(err, s.skip(), wrongKind('{', []byte{c})) // another value would be read in one piece
	}
	if ok, err := s.enterInto('{', v); !ok {
		return err
	}
	var buf [8]NamedDigest // more than most objects have
	all := buf[:0]
	var bad *misfit
	for first := true; ; first = false {
		name, ok, err := s.member(first)
		if !ok {
			if err != nil {
				return err
			}
			break
		}
		key := interned.of(name)
		var sum Digest
		if err == nil && !s.admits(digestSize+len(key), 0) {
			err = errLarge()
		}
		if err != nil {
			err = cmp.Or(s.skip(), err)
		} else if sum, err = digestValue(s, encoded); err == nil {
			all = append(all, NamedDigest{key, sum})
		}
		if err != nil {
			if bad, err = keep(bad, err, "."+key); err != nil {
				return err
			}
		}
	}
	if bad != nil {
		return bad
	}
	v.Set(reflect.ValueOf(sortedDigests(all)))
	return nil
}
