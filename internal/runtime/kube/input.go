package kube

import (
	"errors"
	"io"
)

const (
	// firstBuffer is enough for a quiet watch. A stream that fills the buffer in one read gets a larger buffer, up to
	// bulkBuffer: fewer and larger reads of a long list, each of which costs a window update over HTTP/2.
	firstBuffer = 4 << 10
	bulkBuffer  = 64 << 10
	// maxFrame caps a watch event or list item. etcd holds 1.5 MiB by default; in JSON and with managedFields an
	// object grows a few times. client-go has the same cap.
	maxFrame = 16 << 20
	// keptFrames is the number of small frames in a row after which the memory of a large frame is released: a series
	// of objects of 100 KB needs no allocation for each.
	keptFrames = 8
	// shortValue is the length up to which a value is kept also in an oversized object, up to nameRoom for all values:
	// enough for a name of 253 bytes with quotes. An oversized object is known by name, uid and version.
	shortValue, nameRoom = 256, 4 << 10
	// maxEmptyReads is how often a reader may bring nothing and no error; bufio's number.
	maxEmptyReads = 100
)

// ErrFrameTooLarge is the error of an event or item longer than 16 MiB; the stream cannot go on.
var ErrFrameTooLarge = errors.New("one object is longer than 16 MiB")

// input buffers a stream of frames, which are watch events or list items. The buffer grows with received bytes, never
// by an announced length.
type input struct {
	r     io.Reader
	err   error // the error of r
	buf   []byte
	pos   int // buf[pos:end] is still to come
	end   int //
	start int // start of the value being read in one piece, kept by fill; -1: none

	// The limit of kept bytes bounds also the buffered bytes: see admits.
	most   int // limit of kept bytes of an object; 0: none
	kept   int // of the present object
	beyond int // bytes that a present object without limit would keep

	wipes bool // bytes that were read are cleared: see forget

	passed int64 // bytes of the stream ahead of buf
	frame  int64 // where the present frame began
	large  bool  // the frame needed a large buffer or many brackets
	small  int   // frames since the last large frame
}

func newInput(r io.Reader) input { return input{r: r, start: -1} }

// offset returns how many bytes of the stream have been read.
func (b *input) offset() int64 { return b.passed + int64(b.pos) }

// shrink releases the memory of a large frame: a watch lives for minutes, and an object of 3 MiB must not cost 4 MiB
// all the time. Readers call shrink between two frames; more: the reader holds further memory, and the result tells
// whether to release the memory.
func (b *input) shrink(more bool) bool {
	if len(b.buf) <= bulkBuffer && !more {
		return false
	}
	if b.small++; b.large {
		b.small = 0
	}
	b.large = false
	if b.small < keptFrames || b.end-b.pos > bulkBuffer/2 {
		return false
	}
	b.small = 0
	buf := make([]byte, bulkBuffer)
	b.passed += int64(b.pos)
	old := b.buf[b.pos:b.end]
	b.pos, b.end = 0, copy(buf, old)
	b.wipe(old)
	b.buf = buf
	return true
}

// fill reads more. The end of the stream is io.ErrUnexpectedEOF, because a value is incomplete.
func (b *input) fill() error {
	if b.passed+int64(b.end)-b.frame >= maxFrame {
		return ErrFrameTooLarge
	}
	if b.start >= 0 && b.most > 0 && b.end-b.start > max(b.most-b.kept, shortValue) {
		b.start = -1 // the value cannot be kept: skip the rest
	}
	if b.err == nil {
		b.makeRoom()
	}
	for range maxEmptyReads {
		if b.err != nil {
			break
		}
		var n int
		n, b.err = b.r.Read(b.buf[b.end:])
		b.end += n
		if n > 0 {
			return nil
		}
	}
	switch b.err {
	case nil:
		b.err = io.ErrNoProgress
	case io.EOF:
		return io.ErrUnexpectedEOF
	}
	return b.err
}

// admits counts n kept bytes of the present object. False: the object would exceed its limit and the spare room.
func (b *input) admits(n, room int) bool {
	if b.most == 0 || b.kept+n <= b.most+room {
		b.kept += n
		return true
	}
	b.beyond += n
	return false
}

// makeRoom moves unread bytes to the front of the buffer, and enlarges a buffer filled by the last read.
func (b *input) makeRoom() {
	full := b.end == len(b.buf)
	from := b.pos
	if b.start >= 0 {
		from = b.start
	}
	old := b.buf[from:b.end]
	b.large = b.large || len(old) > bulkBuffer/2
	if stale := b.buf[:b.end]; full && (len(b.buf) < bulkBuffer || 2*len(old) > len(b.buf)) {
		b.buf = make([]byte, max(2*len(b.buf), firstBuffer))
		copy(b.buf, old)
		b.wipe(stale)
	} else {
		copy(b.buf, old)
		b.wipe(stale[len(old):])
	}
	b.passed += int64(from)
	b.pos, b.end, b.start = b.pos-from, len(old), max(b.start-from, -1)
}

// wipe clears bytes that have been read or moved, in a stream of values that are not to be held.
func (b *input) wipe(stale []byte) {
	if b.wipes {
		clear(stale)
	}
}

// forget wipes the first n bytes of the buffer. Readers call forget at the end of an event or a stream; fill wipes the
// bytes that were read until then.
func (b *input) forget(n int) { b.wipe(b.buf[:n]) }
