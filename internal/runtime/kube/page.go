package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"time"
)

// listMeta is the metadata of a list.
type listMeta struct {
	ResourceVersion string `json:"resourceVersion"`
	Continue        string `json:"continue"`
}

// readPage reads a page and appends the items to all.
func readPage[T Object](ctx context.Context, c *Client, q Query, values url.Values,
	all *ListResult[T]) (listMeta, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := startListIdle(cancel)
	defer idle.stop()
	r, err := q.request(values)
	if err != nil {
		return listMeta{}, err
	}
	var plan *protoStruct
	if q.Metadata {
		r.accept = acceptPartial
	} else {
		plan = c.protoPlan(&r, protoPlanOf[T])
	}
	resp, err := c.send(ctx, &r)
	if err != nil {
		return listMeta{}, err
	}
	defer resp.Body.Close()
	protobuf, err := inProtobuf(resp, plan != nil)
	if err != nil {
		return listMeta{}, err
	}
	var meta listMeta
	var kind string
	if body := idle.reader(c.contact.reader(resp.Body)); protobuf {
		in := q.protoReader(body, plan, all.most)
		in.want.skim = all.skim
		meta, kind, err = decodeProtoList(in, all)
		in.forget(len(in.buf))
	} else {
		in := q.scanner(body, all.most)
		in.want.skim, in.wipes = all.skim, holdsDigests(reflect.TypeFor[T]())
		meta, kind, err = decodeList(in, all)
		in.forget(len(in.buf))
	}
	if err = listError(kind, q.kind(), err); err != nil {
		return listMeta{}, readError(ctx, err)
	}
	drain(resp.Body) // behind the last bracket: over HTTP/1.1 the next page would need a new connection
	return meta, nil
}

// listError returns the error of a list of kind got, decoded with err.
func listError(got, kind string, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err != nil:
		return fmt.Errorf("decode list: %w", err)
	case got != kind+"List":
		return fmt.Errorf("the server answered with kind %q, want %q", Printable(got, maxQuoted), kind+"List")
	}
	return nil
}

// decodeList reads {"kind": ..., "metadata": ..., "items": [...]} in any order of the fields, and appends the items to
// all: built-in lists have kind and metadata first, lists of custom resources the items.
func decodeList[T Object](s *scanner, all *ListResult[T]) (meta listMeta, kind string, err error) {
	if err := s.begin(); err != nil {
		return meta, "", err
	}
	if err := s.enterObject(); err != nil {
		return meta, "", err
	}
	for first := true; ; first = false {
		name, ok, err := s.member(first)
		if !ok || err != nil {
			return meta, kind, err
		}
		switch string(name) {
		case "kind":
			err = decodeInto(s, &kind)
		case "metadata":
			err = decodeInto(s, &meta)
		case "items":
			err = decodeItems(s, all)
		default:
			err = s.skip()
		}
		if err != nil {
			return meta, kind, err
		}
	}
}

func decodeItems[T Object](s *scanner, all *ListResult[T]) error {
	ok, err := s.enter('[') // Go servers write a nil slice as null
	if err != nil {
		return fmt.Errorf("items: %w", err)
	}
	for first := true; ok; first = false {
		if ok, err = s.more(']', first); !ok || err != nil {
			return err
		}
		if err := s.begin(); err != nil {
			return err
		}
		from := s.offset()
		obj, err := object[T](s)
		if err := all.add(obj, Part{Size: int(s.offset()-from) - s.hashed, Skimmed: s.skimmed}, err); err != nil {
			return err
		}
	}
	return nil
}

// add takes an item decoded with err.
func (l *ListResult[T]) add(obj T, part Part, err error) error {
	var bad *DecodeError
	isBad := errors.As(err, &bad)
	if err != nil && !isBad {
		return err
	}
	l.read++
	switch {
	case l.each != nil:
		return l.each(obj, part, bad)
	case isBad:
		l.Bad = append(l.Bad, bad)
	default:
		l.Items = append(l.Items, obj)
	}
	return nil
}

// ErrIdle is the error of a stream without a byte for too long, or of a list with too few: the connection or the
// server is dead or stuck. Reading on from the last resource version loses nothing.
var ErrIdle = errors.New("nothing, or too little, arrived within the idle timeout")

// idleTimer ends a stalled request. Only the goroutine that reads the answer uses the timer.
type idleTimer struct {
	d       time.Duration
	t       *time.Timer
	least   int // bytes needed for a restart
	arrived int // since the last restart
}

// startIdle starts a timer that cancels with ErrIdle after d; 0: never. Any byte restarts the timer.
func startIdle(d time.Duration, cancel context.CancelCauseFunc) *idleTimer {
	if d <= 0 {
		return &idleTimer{}
	}
	return &idleTimer{d: d, t: time.AfterFunc(d, func() { cancel(ErrIdle) }), least: 1}
}

// startListIdle is startIdle for a list: the first byte starts the timer anew, and then only minList bytes do.
func startListIdle(cancel context.CancelCauseFunc) *idleTimer {
	i := startIdle(listIdle, cancel)
	i.least, i.arrived = minList, minList-1
	return i
}

func (i *idleTimer) stop() {
	if i.t != nil {
		i.t.Stop()
	}
}

// shorten lowers the timeout to d, if longer, and restarts the timer.
func (i *idleTimer) shorten(d time.Duration) {
	if i.t != nil && d < i.d {
		i.listed(d)
	}
}

// listed makes the timer one of startIdle(d), after the end of a list ahead of a watch.
func (i *idleTimer) listed(d time.Duration) {
	i.d, i.least = d, 1
	if i.t.Stop(); d > 0 {
		i.t.Reset(d)
	}
}

// reader passes r through and starts the timer anew when enough has arrived.
func (i *idleTimer) reader(r io.Reader) io.Reader { return &idleReader{r: r, idle: i} }

type idleReader struct {
	r    io.Reader
	idle *idleTimer
}

func (r *idleReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	i := r.idle
	if i.arrived += n; i.arrived >= i.least && i.d > 0 {
		i.arrived = 0
		i.t.Reset(i.d)
	}
	return n, err
}
