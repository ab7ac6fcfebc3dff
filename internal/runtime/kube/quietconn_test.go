package kube

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// tcpPair returns both ends of a TCP connection, ours as a client has it.
func tcpPair(t *testing.T) (ours net.Conn, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), accepted.Close() })
	return quiet(c), accepted.(*net.TCPConn)
}

func TestAConnectionBringsAllThatWasSentAndThenItsEnd(t *testing.T) {
	ours, theirs := tcpPair(t)
	sent := bytes.Repeat([]byte("0123456789"), 50_000)
	failed := make(chan error, 1)
	go func() {
		_, err := theirs.Write(sent)
		failed <- errors.Join(err, theirs.CloseWrite())
	}()
	if n, err := ours.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing returned %d, %v", n, err)
	}
	got, err := io.ReadAll(ours)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes came, %v", len(got), len(sent), err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// A watch that breaks off is told from one that ends by the type of its error.
func TestAConnectionThatIsResetIsANetworkError(t *testing.T) {
	ours, theirs := tcpPair(t)
	if err := theirs.SetLinger(0); err != nil { // to close is to reset
		t.Fatal(err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := ours.Read(make([]byte, 1))
	if !errors.As(err, new(*net.OpError)) || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset as a *net.OpError", err)
	}
}

func TestAReadThatWaitsEndsWithItsDeadlineAndWithClose(t *testing.T) {
	ours, _ := tcpPair(t)
	if err := ours.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if err := ours.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := ours.Read(make([]byte, 1))
		ended <- err
	}()
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that it is closed", err)
	}
}
