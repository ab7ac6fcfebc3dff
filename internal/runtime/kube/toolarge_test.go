package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// large is an object of which spec is kept as it is, lists and labels as what they are.
type large struct {
	MetaAnnotated `json:"metadata"`
	Spec          Raw      `json:"spec"`
	Text          string   `json:"text"`
	Items         []inner  `json:"items"`
	Names         []string `json:"names"`
	Other         Raw      `json:",embed"`
}

type inner struct {
	A, B, C int64
}

const most = 64 << 10

// tooLargeObjects are objects of half a MiB each, by what of them is declared and large.
func tooLargeObjects() map[string]string {
	text := strings.Repeat("x", 1<<19)
	meta := `"name":"a","namespace":"default","resourceVersion":"7","uid":"u-a"`
	rest := func(of string) string { return `{"metadata":{` + meta + `},` + of + `}` }
	return map[string]string{
		"raw":        rest(`"spec":{"template":"` + text + `"}`),
		"text":       rest(`"text":"` + text + `"`),
		"escapes":    rest(`"text":"` + strings.Repeat(`\n`, 1<<18) + `"`),
		"items":      rest(`"items":[` + strings.Repeat("{},", 1<<16) + `{}]`),
		"names":      rest(`"names":[` + strings.Repeat(`"",`, 1<<16) + `""]`),
		"nested":     rest(`"spec":` + strings.Repeat("[", 1<<17) + strings.Repeat("]", 1<<17)),
		"members":    rest(strings.Repeat(`"a":1,`, 1<<16) + `"b":1`),
		"name":       rest(`"` + text + `":1`),
		"annotation": `{"metadata":{"annotations":{"a":"` + text + `"},` + meta + `}}`,
		"labels":     `{"metadata":{"annotations":{` + strings.Repeat(`"a":"",`, 1<<16) + `"b":""},` + meta + `}}`,
		"last":       `{"spec":"` + text + `","names":[` + strings.Repeat(`"",`, 1<<16) + `""],"metadata":{` + meta + `}}`,
		"many": rest(`"spec":"` + strings.Repeat("x", 50_000) + `","text":"` + strings.Repeat("x", 50_000) +
			`"`),
	}
}

// Where an object comes ahead of its type, as from a proxy that sorts what it passes on, it is not known what to read
// of it. One that is too large ends the watch as a frame that is too long does: a list has to tell.
func TestAnObjectThatIsTooLargeAheadOfItsTypeEndsTheWatch(t *testing.T) {
	text := strings.Repeat("x", 2*most)
	in := Query{Resource: pods}.scanner(strings.NewReader(`{"object":{"metadata":{"name":"a"},"spec":"`+text+
		`"},"type":"MODIFIED"}`), most)
	if _, err := nextEvent[*large](in); !errors.Is(err, ErrFrameTooLarge) || errors.As(err, new(*DecodeError)) {
		t.Errorf("got %v, want that the watch ends", err)
	}
	in = Query{Resource: pods}.scanner(strings.NewReader(`{"object":`+item("a", "7")+`,"type":"MODIFIED"}`), most)
	if ev, err := nextEvent[*large](in); err != nil || ev.Object.Name != "a" || ev.Type != Modified {
		t.Errorf("a small one: %+v, %v", ev, err)
	}
}

func TestAnObjectThatIsTooLargeIsKnownByNameAndNeverHeld(t *testing.T) {
	for name, text := range tooLargeObjects() {
		t.Run(name, func(t *testing.T) {
			next := item("next", "8")
			for _, in := range []io.Reader{strings.NewReader(frame("ADDED", text) + frame("ADDED", next)),
				iotest.OneByteReader(strings.NewReader(frame("ADDED", text) + frame("ADDED", next)))} {
				s := Query{Resource: pods}.scanner(in, most)
				ev, err := nextEvent[*large](s)
				var bad *DecodeError
				if !errors.As(err, &bad) || !errors.Is(err, ErrTooLarge) || bad.Size <= most {
					t.Fatalf("got %v, %+v", err, bad)
				}
				if bad.Key != (Key{"default", "a"}) || bad.UID != "u-a" || bad.ResourceVersion != "7" ||
					ev.Type != Added {
					t.Errorf("it is known as %+v, %s", bad, ev.Type)
				}
				if len(s.buf) > 4*most {
					t.Errorf("a buffer of %d bytes was made", len(s.buf))
				}
				if ev, err := nextEvent[*large](s); err != nil || ev.Object.Name != "next" {
					t.Errorf("behind it: %v, %v", ev, err)
				}
			}
		})
	}
}

// What is not declared does not count, and what is just small enough is decoded as ever.
func TestAnObjectIsAsLargeAsWhatIsKeptOfIt(t *testing.T) {
	text := `{"metadata":{"managedFields":["` + strings.Repeat("m", 5<<20) + `"],"name":"a"},"spec":"` +
		strings.Repeat("s", most-100) + `"}`
	type kept struct {
		Meta `json:"metadata"`
		Spec Raw `json:"spec"`
	}
	s := Query{Resource: pods}.scanner(strings.NewReader(frame("ADDED", text)), most)
	ev, err := nextEvent[*kept](s)
	if err != nil || len(ev.Object.Spec) != most-98 {
		t.Errorf("got %v", err)
	}
}

func TestAListOfLargeObjectsTakesNoMemory(t *testing.T) {
	objects := tooLargeObjects()
	var all []string
	for name, text := range objects {
		all = append(all, strings.Replace(text, `"name":"a"`, fmt.Sprintf(`"name":%q`, name), 1))
	}
	body := podList("20", "", all...)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	held := before.HeapAlloc
	var found []*DecodeError
	got := ListResult[*large]{each: func(_ Object, _ Part, bad *DecodeError) error {
		found = append(found, bad)
		runtime.GC()
		runtime.ReadMemStats(&after)
		held = max(held, after.HeapAlloc)
		return nil
	}}
	_, err := decodePage(Query{Resource: pods}.scanner(strings.NewReader(body), most), "Pod", &got)
	if err != nil || len(found) != len(objects) || len(got.Items) > 0 {
		t.Fatalf("got %d objects and %d bad ones, %v", len(got.Items), len(found), err)
	}
	for _, bad := range found {
		if !errors.Is(bad, ErrTooLarge) {
			t.Errorf("got %v", bad)
		}
	}
	if held-before.HeapAlloc > 4<<20 {
		t.Errorf("%d KiB were held", (held-before.HeapAlloc)>>10)
	}
}

func TestAnObjectInProtobufThatIsTooLargeIsPassedOver(t *testing.T) {
	type named struct {
		Meta `json:"metadata"`
	}
	padded := strings.Replace(item("a", "7"), `"metadata":{`,
		`"metadata":{"annotations":{"a":"`+strings.Repeat("x", 5<<20)+`"},`, 1)
	in := protoFrame("ADDED", protoOf(t, pods, padded)) + protoFrame("ADDED", protoOf(t, pods, item("next", "8")))
	p := Query{Resource: pods}.protoReader(strings.NewReader(in), protoPlanOf[*named](pods), most)
	_, err := nextProtoEvent[*named](p, nil)
	if !errors.Is(err, ErrTooLarge) || len(p.buf) > bulkBuffer {
		t.Errorf("got %v with a buffer of %d bytes", err, len(p.buf))
	}
	if ev, err := nextProtoEvent[*named](p, nil); err != nil || ev.Object.Name != "next" {
		t.Errorf("behind it: %v, %v", ev, err)
	}
	list := protoListOf(t, pods, "9", padded, item("next", "8"))
	all := ListResult[*named]{}
	p = Query{Resource: pods}.protoReader(strings.NewReader(list), protoPlanOf[*named](pods), most)
	_, err = decodeProtoPage(p, "Pod", &all)
	if err != nil || len(all.Items) != 1 || len(all.Bad) != 1 || !errors.Is(all.Bad[0], ErrTooLarge) {
		t.Errorf("a list: %d objects, bad ones %v, %v", len(all.Items), all.Bad, err)
	}
}

func TestLargeAnswersAreReadOneAtATimeAndSmallOnesBesideThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 12
		var begun atomic.Int32 // large answers of which more has come than one buffer of a connection holds
		text := strings.Repeat("x", 64<<10)
		c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
			if name == "small" {
				answer(200, item(name, "1"))(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, `{"metadata":{"name":"large","namespace":"default"},"x":"`)
			for i := 0; i < 3<<20/len(text) && err == nil; i++ {
				if _, err = io.WriteString(w, text); i == 2*largeAnswer/len(text) {
					begun.Add(1)
					time.Sleep(time.Second)
				}
			}
			io.WriteString(w, `"}`)
		}))
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				if err := c.Get(t.Context(), pods, Key{"default", "large"}, &pod{}); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range workers - 1 {
			time.Sleep(time.Second)
			synctest.Wait()
			if n := int(begun.Load()); n > i+2 {
				t.Errorf("%d large answers were read within %d s, want one each", n, i+1)
			}
			if err := c.Get(t.Context(), pods, Key{"default", "small"}, &pod{}); err != nil {
				t.Error(err)
			}
		}
		running.Wait()
		if len(c.large) != 0 {
			t.Error("the place of the large answer is still taken")
		}
	})
}

func TestALargeAnswerThatWaitsForAnotherIsNoSilenceOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, answer(200, `{"metadata":{"name":"large","namespace":"default"},"x":"`+
			strings.Repeat("x", 1<<19)+`"}`))
		c.large <- struct{}{} // another one is read for longer than a request may take
		err := c.Get(t.Context(), pods, Key{"default", "large"}, &pod{})
		if err == nil || IsOutage(err) || !IsTransient(err) || strings.Contains(err.Error(), "no answer") ||
			Explain(err) != "skiff reads one large answer at a time, and another one took too long" {
			t.Errorf("%v, explained as %q, an outage %t", err, Explain(err), IsOutage(err))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := c.Get(ctx, pods, Key{"default", "large"}, &pod{}); !errors.Is(err, context.Canceled) {
			t.Errorf("of a caller that has gone: %v", err)
		}
		<-c.large
		if err := c.Get(t.Context(), pods, Key{"default", "large"}, &pod{}); err != nil {
			t.Error(err)
		}
	})
}

func TestALargeAnswerIsGivenUpBeforeItsRequestIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, scripted(answer(200, `{"kind":"Status","status":"Failure","code":429,"details":`+
			`{"retryAfterSeconds":50},"x":"`+strings.Repeat("x", 1<<19)+`"}`), answer(200, item("a", "5"))))
		var running sync.WaitGroup
		running.Go(func() {
			if err := getPod(t, c); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if len(c.large) > 0 {
			t.Error("no other large answer can be read while it waits")
		}
		running.Wait()
	})
}

func TestALargeAnswerThatStandsStillHoldsUpOthersForOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stands := true
		c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"metadata":{"name":"large","namespace":"default"},"x":"`+
				strings.Repeat("x", 1<<19))
			if stands {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
			_, _ = io.WriteString(w, `"}`)
		}))
		err := c.Get(t.Context(), pods, Key{"default", "large"}, &pod{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		stands = false
		if err := c.Get(t.Context(), pods, Key{"default", "large"}, &pod{}); err != nil {
			t.Error(err)
		}
	})
}
