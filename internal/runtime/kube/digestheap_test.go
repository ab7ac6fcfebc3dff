package kube

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// wipedReader fails unless all that is read into is zero but what is still to come.
type wipedReader struct {
	chunked
	t  *testing.T
	in *input
}

func (r *wipedReader) Read(p []byte) (int, error) {
	if bytes.Trim(r.in.buf[r.in.end:], "\x00") != nil {
		r.t.Errorf("what was read is still in the buffer of %d bytes", len(r.in.buf))
	}
	return r.chunked.Read(p)
}

func TestABufferIsClearedBehindTheReader(t *testing.T) {
	object := strings.Replace(longSecret(), `"name":"a"`, `"name":"a","annotations":{"last":"`+
		strings.Repeat("s", 200_000)+`"}`, 1)
	for _, size := range []int{7, 1000, 1 << 20} {
		r := &wipedReader{chunked: chunked{frame("ADDED", object), size}, t: t}
		s := newScanner(r)
		r.in, s.wipes = &s.input, true
		if _, err := nextEvent[*hidden](s); err != nil {
			t.Fatal(err)
		}
		s.forget(s.pos)
		r = &wipedReader{chunked: chunked{protoFrame("ADDED", protoOf(t, secretKind, object)), size}, t: t}
		p := newProtoReader(r, protoPlanOf[*hidden](secretKind), expected{})
		r.in = &p.input
		if _, err := nextProtoEvent[*hidden](p, nil); err != nil {
			t.Fatal(err)
		}
		p.forget(p.pos)
		for _, b := range [][]byte{s.buf[:s.pos], s.digester.chunk[:], s.digester.plain[:], p.buf[:p.pos],
			p.slim[:cap(p.slim)], p.digester.chunk[:]} {
			if bytes.Trim(b, "\x00") != nil {
				t.Errorf("%d bytes of a buffer are not cleared", len(b))
			}
		}
	}
}

// canary is a value of a Secret that no test has in memory as a whole: 48 bytes, made for each use.
func canary() (b [48]byte) {
	for i := range b {
		b[i] = byte('A' + (i*i*7+i*13)%23)
	}
	return b
}

// writeCanaries writes Secrets of 60 KiB of canaries each, in a form that ends with other content of 256 KiB.
func writeCanaries(w io.Writer, before, behind string) {
	text := canary()
	defer clear(text[:])
	_, _ = io.WriteString(w, before)
	for range 60 << 10 / len(text) {
		_, _ = w.Write(text[:])
	}
	padding := strings.Repeat("p", 1<<10)
	_, _ = io.WriteString(w, behind)
	for range 256 {
		_, _ = io.WriteString(w, padding)
	}
}

// secretServer answers with one Secret, in a list or in a watch that stays open, in JSON or protobuf. Values and
// padding go out piece by piece.
func secretServer(protobuf bool) http.HandlerFunc {
	const value, padding = 60 << 10 / 48 * 48, 256 << 10
	uvarint := func(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }
	return func(w http.ResponseWriter, r *http.Request) {
		watch := r.URL.Query().Has("watch")
		if !protobuf {
			w.Header().Set("Content-Type", "application/json")
			before, end := `{"kind":"SecretList","metadata":{"resourceVersion":"9"},"items":[`, `"}]}`
			if watch {
				before, end = `{"type":"ADDED","object":`, `"}}`
			}
			writeCanaries(w, before+`{"metadata":{"name":"a"},"data":{"k":"`, `"},"padding":"`)
			_, _ = io.WriteString(w, end+"\n")
		} else {
			w.Header().Set("Content-Type", protobufType)
			entry := "\x0a\x01k\x12" + uvarint(value)
			entry = "\x12" + uvarint(len(entry)+value) + entry
			before, behind := "\x0a\x03\x0a\x01a"+entry, "\x22"+uvarint(padding)
			size := len(before) + value + len(behind) + padding
			nest := func(head string) { // what is so far becomes the content of a field
				before = head + uvarint(size) + before
				size += len(head) + len(uvarint(size))
			}
			if watch {
				nest("k8s\x00\x12")
				nest("\x0a")
				nest("\x0a\x05ADDED\x12")
				before = string(binary.BigEndian.AppendUint32(nil, uint32(size))) + before
			} else {
				nest("\x0a\x03\x12\x019\x12")
				nest("k8s\x00\x0a\x0c\x12\x0aSecretList\x12")
			}
			writeCanaries(w, before, behind)
		}
		if w.(http.Flusher).Flush(); watch {
			<-r.Context().Done()
		}
	}
}

// canaryInHeap dumps the heap, and then searches the dump for a part of the canary.
func canaryInHeap(t *testing.T) bool {
	t.Helper()
	runtime.GC()
	runtime.GC()
	path := filepath.Join(t.TempDir(), "heap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	debug.WriteHeapDump(f.Fd())
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dump, err := os.ReadFile(path)
	if err != nil || len(dump) < 1<<20 {
		t.Fatalf("a dump of %d bytes, %v", len(dump), err)
	}
	text := canary()
	defer clear(text[:])
	found := bytes.Contains(dump, text[:16])
	clear(dump)
	return found
}

// The dumps are made while a list is being read and while a watch is open, so that their buffers are in the heap.
// Other content follows the value, because net/http keeps the last bytes of an answer. The struct that holds the
// value shows that a dump would have it.
func TestNoValueBehindADigestIsInTheHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("dumps the heap six times")
	}
	type held struct {
		Meta `json:"metadata"`
		Data map[string]string `json:"data"`
	}
	for _, protobuf := range []bool{false, true} {
		c := pipeClient(t, secretServer(protobuf))
		if listAndWatch(t, c, func(s *hidden) bool { return len(s.Data) == 1 }) {
			t.Errorf("protobuf %v: a value is in the heap", protobuf)
		}
		c.Close()
	}
	if !listAndWatch(t, pipeClient(t, secretServer(false)), func(s *held) bool { return len(s.Data) == 1 }) {
		t.Error("a value that is held is not found in the heap")
	}
}

// listAndWatch reports whether the value of the Secret is in the heap during a list or a watch.
func listAndWatch[T Object](t *testing.T, c *Client, whole func(T) bool) (found bool) {
	t.Helper()
	query := Query{Resource: secretKind}
	seen := 0
	_, err := List[T](t.Context(), c, query, ListOptions{Each: func(obj Object, _ Part, bad *DecodeError) error {
		seen++
		if bad != nil || !whole(obj.(T)) {
			t.Errorf("got %v, %v", obj, bad)
		}
		found = canaryInHeap(t)
		runtime.KeepAlive(obj)
		return nil
	}})
	if err != nil || seen != 1 {
		t.Fatalf("listed %d Secrets, %v", seen, err)
	}
	w, err := Watch[T](t.Context(), c, query, WatchOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ev, err := w.Next()
	if err != nil || !whole(ev.Object) {
		t.Fatalf("got %v, %v", ev, err)
	}
	found = canaryInHeap(t) || found
	runtime.KeepAlive(ev)
	runtime.KeepAlive(w)
	return found
}
