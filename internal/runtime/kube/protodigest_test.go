package kube

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// protoSecret is a watch event with a Secret called a, and the given fields behind the metadata.
func protoSecret(fields string) string {
	raw := "\x0a\x03\x0a\x01a" + fields
	envelope := "k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Secret\x12" + string(rune(len(raw))) + raw
	return "\x0a\x05ADDED\x12" + string(rune(len(envelope)+2)) + "\x0a" + string(rune(len(envelope))) + envelope
}

func protoEventOf(event string) string { return "\x00\x00\x00" + string(rune(len(event))) + event }

func TestEntriesOfAMapInProtobuf(t *testing.T) {
	const inObject, inData = "decode object a: ", "decode object a: data: "
	const cut, wire = "the protobuf message ends within a field", "a field of the protobuf message has the wire type 3"
	for fields, want := range map[string]string{
		"\x12\x06\x0a\x01a\x12\x01x": fmt.Sprint(digestsOf("a", "x")),
		"\x12\x06\x12\x01x\x0a\x01a": fmt.Sprint(digestsOf("a", "x")), // the value first
		"\x12\x03\x0a\x01a":          fmt.Sprint(digestsOf("a", "")),
		"\x12\x00":                   fmt.Sprint(digestsOf("", "")),
		"\x12\x06\x0a\x01a\x12\x01x\x12\x06\x0a\x01a\x12\x01y":     fmt.Sprint(digestsOf("a", "y")),
		"\x12\x09\x0a\x01a\x12\x01x\x12\x01y":                      fmt.Sprint(digestsOf("a", "y")),
		"\x12\x08\x0a\x01a\x12\x01x\x18\x01\x28\x01\x1a\x06Opaque": fmt.Sprint(digestsOf("a", "x")),
		"\x12\x06\x0a\x01a\x12\x07x":                               inData + cut,
		"\x12\x06\x0a\x01a\x12\x80":                                inObject + cut,
		"\x12\x05\x0a\x01a\x12\x80":                                inData + cut,
		"\x12\x05\x0a\x01a\x10\x01":                                inData + "the field has the wire type 0, want 2",
		"\x10\x01":                                                 inData + "the field has the wire type 0, want 2",
		"\x12\x7f\x0a\x01a":                                        inObject + cut,
		"\x12\x02\x13\x00":                                         inData + wire,
	} {
		event := protoSecret(fields)
		next := protoFrame("ADDED", protoOf(t, secretKind, item("next", "8")))
		for _, size := range []int{1, 1000} {
			in := &chunked{protoEventOf(event) + next, size}
			p := newProtoReader(in, protoPlanOf[*hidden](secretKind), expected{})
			ev, err := nextProtoEvent[*hidden](p, nil)
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(ev.Object.Data)
			}
			if got != want {
				t.Errorf("%q: got %s, want %s", fields, got, want)
			}
			if ev, err := nextProtoEvent[*hidden](p, nil); err != nil || ev.Object.Name != "next" {
				t.Errorf("behind %q: %v, %v", fields, ev, err)
			}
		}
	}
}

func TestOtherEventsWithDigestsAreReadAsEver(t *testing.T) {
	p := newProtoReader(iotest.OneByteReader(strings.NewReader(protoStory(t))), protoPlanOf[*hidden](secretKind),
		expected{})
	got := tellEvents(func() (Event[*pod], error) {
		ev, err := nextProtoEvent[*hidden](p, nil)
		told := Event[*pod]{Type: ev.Type, ResourceVersion: ev.ResourceVersion, InitialEventsEnd: ev.InitialEventsEnd}
		if ev.Object != nil {
			told.Object = &pod{Meta: ev.Object.Meta}
		}
		return told, err
	})
	if want := tellProto(strings.NewReader(protoStory(t))); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// An object ahead of its type would have to be held whole.
func TestAnObjectWithDigestsAheadOfItsTypeEndsTheWatch(t *testing.T) {
	s := newScanner(strings.NewReader(`{"object":` + longSecret() + `,"type":"ADDED"}`))
	s.wipes = true
	if _, err := nextEvent[*hidden](s); !errors.Is(err, ErrFrameTooLarge) || len(s.buf) > bulkBuffer {
		t.Errorf("JSON: %v", err)
	}
	p := newProtoReader(strings.NewReader(protoEventOf("\x12\x02\x0a\x00\x0a\x05ADDED")),
		protoPlanOf[*hidden](secretKind), expected{})
	if _, err := nextProtoEvent[*hidden](p, nil); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("protobuf: %v", err)
	}
}

func TestDigestsThatDidNotChangeAreThoseOfTheVersionBefore(t *testing.T) {
	object := protoFrame("MODIFIED", protoOf(t, secretKind, `{"metadata":{"name":"a"},"data":{"a":"eA==","b":""}}`))
	p := newProtoReader(strings.NewReader(object+object), protoPlanOf[*hidden](secretKind), expected{})
	first, err := nextProtoEvent[*hidden](p, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := nextProtoEvent(p, func(Key) (*hidden, bool) { return first.Object, true })
	if err != nil || &second.Object.Data[0] != &first.Object.Data[0] {
		t.Errorf("the digests are held twice, %v", err)
	}
}

func TestDigestsBelowTheTopOfAnObjectAreReadFromJSON(t *testing.T) {
	type labeled struct {
		Metadata struct {
			Meta
			Annotations Digests `json:"annotations"`
		} `json:"metadata"`
	}
	if protoStructOf(reflect.TypeFor[labeled](), "v1 Secret") != nil || !holdsDigests(reflect.TypeFor[*labeled]()) ||
		holdsDigests(reflect.TypeFor[*everything]()) {
		t.Error("protobuf is asked for where values would be held")
	}
}
