package kube

import (
	"errors"
	"io"
)

const (
	// firstBuffer is what a quiet watch needs; a stream that fills its buffer in one read gets a larger one, up to
	// bulkBuffer: larger reads of a long list mean fewer of them, and over HTTP/2 each one costs a window update.
	firstBuffer = 4 << 10
	bulkBuffer  = 64 << 10
	// maxFrame caps one watch event or one list item. etcd holds 1.5 MiB by default; in JSON and with
	// managedFields an object grows a few times. client-go has the same cap.
	maxFrame = 16 << 20
	// keptFrames is how many frames in a row have to get by without the memory that a large one took, before it is
	// given back: objects of 100 KB that come one after the other need not be allocated for one by one.
	keptFrames = 8
	// shortValue is how long a value is that is kept also of an object that is too large, up to nameRoom for all of
	// them: a name has 253 bytes, and with its quotes one of these has to fit. Such an object is known by its name,
	// uid and version.
	shortValue, nameRoom = 256, 4 << 10
	// maxEmptyReads is how often a reader may bring nothing and no error; bufio's number.
	maxEmptyReads = 100
)

// ErrFrameTooLarge says that one event or item was longer than 16 MiB; the stream cannot go on behind it.
var ErrFrameTooLarge = errors.New("one object is longer than 16 MiB")

// input buffers a stream of frames, which are watch events or list items. It grows with what has arrived, never by a
// length that the stream announces.
type input struct {
	r     io.Reader
	err   error // of r, once it has failed
	buf   []byte
	pos   int // buf[pos:end] is still to come
	end   int //
	start int // start of the value that is being read in one piece, -1 for none; fill keeps it

	// What may be kept of an object bounds also what is buffered for it: see admits.
	most   int // how many bytes of one object may be kept; 0: any
	kept   int // of the present one
	beyond int // what would have been kept of it, were there no bound

	passed int64 // bytes of the stream ahead of buf
	frame  int64 // where the present frame began
	large  bool  // the frame needed a large buffer or many brackets
	small  int   // frames since one did
}

func newInput(r io.Reader) input { return input{r: r, start: -1} }

// offset returns how many bytes of the stream have been read.
func (b *input) offset() int64 { return b.passed + int64(b.pos) }

// shrink gives back what a large frame has left behind: a watch lives for minutes, and one object of 3 MiB must not
// cost 4 MiB for all that time. It is called between two frames; more says that the reader holds further memory,
// and the result whether it is to be given back too.
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
	b.pos, b.end = 0, copy(buf, b.buf[b.pos:b.end])
	b.buf = buf
	return true
}

// fill reads more. An end of the stream is io.ErrUnexpectedEOF: it is called where more has to follow.
func (b *input) fill() error {
	if b.passed+int64(b.end)-b.frame >= maxFrame {
		return ErrFrameTooLarge
	}
	if b.start >= 0 && b.most > 0 && b.end-b.start > max(b.most-b.kept, shortValue) {
		b.start = -1 // it cannot be kept: pass over the rest of it
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

// admits counts n bytes that are to be kept of the present object. False: with them it would be more than may be and
// room beyond that.
func (b *input) admits(n, room int) bool {
	if b.most == 0 || b.kept+n <= b.most+room {
		b.kept += n
		return true
	}
	b.beyond += n
	return false
}

// makeRoom moves what is still needed to the front of the buffer, and enlarges one that the last read has
// filled.
func (b *input) makeRoom() {
	full := b.end == len(b.buf)
	from := b.pos
	if b.start >= 0 {
		from = b.start
	}
	old := b.buf[from:b.end]
	b.large = b.large || len(old) > bulkBuffer/2
	if full && (len(b.buf) < bulkBuffer || 2*len(old) > len(b.buf)) {
		b.buf = make([]byte, max(2*len(b.buf), firstBuffer))
	}
	copy(b.buf, old)
	b.passed += int64(from)
	b.pos, b.end, b.start = b.pos-from, len(old), max(b.start-from, -1)
}
