//go:build unix

package kubeconfig

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hang replaces a file by a pipe that no one writes to: who reads it waits, as on a disk that hangs. answer ends that.
func (b *box) hang(name string) (answer func(content string)) {
	b.t.Helper()
	path := b.path(name)
	if err := os.Remove(path); err != nil {
		b.t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		b.t.Fatal(err)
	}
	var once sync.Once
	answer = func(content string) {
		once.Do(func() {
			pipe, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
			if err != nil {
				b.t.Error(err)
				return
			}
			if _, err := pipe.WriteString(content); err != nil {
				b.t.Error(err)
			}
			if err := pipe.Close(); err != nil {
				b.t.Error(err)
			}
		})
	}
	b.t.Cleanup(func() { answer("") })
	return answer
}

// nextRead returns a channel that is closed after the next read that succeeds.
func nextRead[T any](r *rotated[T]) <-chan struct{} {
	read, changed := make(chan struct{}), r.changed
	r.changed = func(before, now T) {
		if changed != nil {
			changed(before, now)
		}
		close(read)
	}
	return read
}

func wantOneHangWarning(t *testing.T, b *box) {
	t.Helper()
	if len(b.warnings) != 1 || !strings.Contains(b.warnings[0], "does its disk hang?") {
		t.Errorf("warnings %q, want one that the disk hangs", b.warnings)
	}
}

// Rules: AUTH-02, FI-16
func TestATokenFileOnADiskThatHangsHoldsUpNoRequest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write("tok", "one")
	cfg, _, err := b.load(Flags{Server: "https://h", TokenFile: b.path("tok")})
	if err != nil {
		t.Fatal(err)
	}
	f := cfg.Credentials.(*tokenFile)
	answer, read := b.hang("tok"), nextRead(&f.rotated)
	f.Invalidate(time.Now())

	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := f.Authorization(short); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= rereadWait {
		t.Errorf("a request of 1ms waited %s for the token file", took)
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { wantToken(t, f, "one") })
	}
	wg.Wait()
	if took := time.Since(began); took > 5*rereadWait {
		t.Errorf("a hundred requests waited %s for the token file", took)
	}
	wantOneHangWarning(t, b)

	answer("two")
	<-read
	if got := f.current().reveal(); got != "two" {
		t.Errorf("the token is %q after the disk has answered, want two", got)
	}
}

// Rules: AUTH-06
func TestAClientCertificateOnADiskThatHangsHoldsUpNoRequest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ca := newCA(t, "ca")
	pair, renewed := ca.issue("client"), ca.issue("renewed")
	p := b.keyPair(pair)
	answer, read := b.hang("tls.crt"), nextRead(&p.rotated)
	b.write("tls.key", string(renewed.key))
	p.Invalidate(time.Now())
	for range 3 {
		if _, err := p.Authorization(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wantOneHangWarning(t, b)
	answer(string(renewed.cert))
	<-read
	if got, err := p.certificate(nil); err != nil || got.Leaf.Subject.CommonName != "renewed" {
		t.Errorf("certificate of %v, error %v, want the renewed one", got.Leaf.Subject, err)
	}
}

// Rules: AUTH-06
func TestACertificateAuthorityOnADiskThatHangsHoldsUpNoHandshake(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	f := b.caFile(newCA(t, "old"))
	before := f.current()
	answer, read := b.hang("ca.crt"), nextRead(&f.rotated)
	f.Invalidate(time.Now())
	for range 3 {
		if f.get(t.Context()) != before {
			t.Error("another pool than before")
		}
	}
	wantOneHangWarning(t, b)
	answer(string(newCA(t, "new").pem))
	<-read
	if f.current() == before {
		t.Error("the pool is the one from before the disk hung")
	}
}
