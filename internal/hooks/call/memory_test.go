package call_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
)

// large is an answer of 3 MiB.
var large = `{"a":"` + strings.Repeat("x", 3<<20) + `"}`

// Rules: HK-106
func TestALargeAnswerIsReadWhereThereIsRoomForIt(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what is left unread resets the connection, now and then
		_, _ = io.WriteString(w, large)    // the reader may have gone
	}
	_, known := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "3145736")
		answer(w, r)
	})
	_, unknown := serve(t, answer)
	lines := echo()
	for name, of := range map[string]struct {
		hook *spec.Hook
		room int64 // that it takes to read the answer
	}{
		"webhook of known length": {known, int64(len(large))},
		"webhook":                 {unknown, 4 << 20},
		"lines":                   {lines, 4 << 20},
		"oneshot":                 {shell(t, spec.Oneshot, `cat`), 4 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newCaller(t, of.hook, func(o *call.Options) { o.MaxAnswer = 4 << 20 })
			memory := call.NewMemory(64 << 20) // eight of it are for all
			first, err := memory.Room("a", 0)
			if err != nil {
				t.Fatal(err)
			}
			question := call.Call{Body: []byte(large)}
			reply, err := c.Call(first.WithRoom(t.Context()), question)
			if err != nil || len(reply.Body) < len(large) || first.Taken() != of.room {
				t.Fatalf("%d bytes, %v; %d are taken", len(reply.Body), err, first.Taken())
			}
			second, err := memory.Room("a", 0)
			if err != nil {
				t.Fatal(err)
			}
			later := new(call.Later)
			if _, err = c.Call(second.WithRoom(t.Context()), question); !errors.As(err, &later) || later.After <= 0 ||
				call.IsUnavailable(err) {
				t.Fatalf("there is no room, and the call ends with %v", err)
			}
			if _, err := c.Call(second.WithRoom(t.Context()), call.Call{Body: []byte(`{"a":1}`)}); err != nil &&
				of.hook.Webhook == nil {
				t.Errorf("a small answer: %v", err)
			}
			first.Leave()
			second.Give(second.Taken())
			reply, err = c.Call(second.WithRoom(t.Context()), question)
			if err != nil || len(reply.Body) < len(large) {
				t.Errorf("there is room again: %d bytes, %v", len(reply.Body), err)
			}
			second.Leave()
		})
	}
}

func TestAnAnswerThatTakesMoreThanThereIsIsRefusedWithWhatToDo(t *testing.T) {
	room, err := call.NewMemory(64<<20).Room("a", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	defer room.Leave()
	err = room.Take(22 << 20)
	if err == nil || !strings.Contains(err.Error(), "would take 22 MiB of memory, and skiff may take 21 MiB") ||
		errors.As(err, new(*call.Later)) {
		t.Errorf("got %v", err)
	}
}

func TestOneNamespaceDoesNotTakeTheRoomOfAnother(t *testing.T) {
	memory := call.NewMemory(64 << 20) // eight of it are for all
	own, err := memory.Room("a", 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Leave()
	if _, err := memory.Room("a", 2<<20); !errors.As(err, new(*call.Later)) {
		t.Errorf("a second large answer of a namespace: %v", err)
	}
	other, err := memory.Room("b", 4<<20)
	if err != nil {
		t.Errorf("another namespace: %v", err)
	}
	other.Leave()
}
