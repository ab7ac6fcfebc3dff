package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"skiff/internal/runtime/patch"
)

// owners is what most objects of a kind have in their managedFields.
var owners = patch.NewText(`{"f:data":{".":{},"f:` + strings.Repeat("key", 100) + `":{}}}`)

// large is an object of 64 KiB with two managers.
func large(i int) map[string]any {
	manager := func(name string) any {
		return map[string]any{"manager": name, "fieldsType": "FieldsV1", "fieldsV1": owners}
	}
	return map[string]any{"metadata": map[string]any{"name": fmt.Sprint(i),
		"creationTimestamp": "2026-01-01T00:00:00Z",
		"managedFields":     []any{manager("a"), manager("b")}},
		"data": map[string]any{"k": strings.Repeat("x", 64<<10), "n": int64(i), "f": 1.5, "null": nil}}
}

func TestAnObjectThatIsNotInUseIsKeptAsJSONAndDecodedAgain(t *testing.T) {
	s := New(Options{HistoryEvents: 1000})
	var stored []*Object
	for i := range 100 {
		s.Update(func(tx *Tx) error {
			stored = append(stored, tx.Put("t", Key{Name: fmt.Sprint(i)}, large(i), nil))
			return nil
		})
	}
	kept := 0
	for _, o := range stored {
		if o.value.Load() != nil {
			kept++
		}
	}
	if most := decodedBytes>>16 + 1; kept == 0 || kept > most {
		t.Errorf("%d values are kept, want some, and at most %d", kept, most)
	}
	for i, o := range stored {
		want := large(i)
		want["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(o.Revision)
		if !patch.Equal(o.Value(), want) {
			t.Fatalf("object %d is %.200v", i, o.Value())
		}
		text, err := patch.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(o.JSON()) != string(text) || o.Size() != len(text) || o.Created != "2026-01-01T00:00:00Z" {
			t.Fatalf("object %d of %d bytes, created %s: %.500s", i, o.Size(), o.Created, o.JSON())
		}
		if len(o.json) != len(text)-2*len(owners.String()) {
			t.Fatalf("object %d takes %d bytes besides the owners of its fields", i, len(o.json))
		}
	}
}

func TestTheHistoryIsLimitedInBytesToo(t *testing.T) {
	s := New(Options{HistoryEvents: 1000, HistoryBytes: 64 << 16})
	var first *Object
	for i := range 300 {
		s.Update(func(tx *Tx) error {
			o := tx.Put("t", Key{Name: "a"}, large(i), nil)
			if first == nil {
				first = o
			}
			return nil
		})
	}
	if n := len(s.tables["t"].log); n != minHistory {
		t.Errorf("%d changes are kept, want %d: however large they are", n, minHistory)
	}
	if _, _, err := s.Watch("t", first.Revision); !errors.Is(err, ErrCompacted) {
		t.Errorf("a watch from before the history: %v", err)
	}
	put(s, "b")
	if bytes := s.tables["t"].logBytes; bytes > 64<<16+minHistory<<17 || bytes <= 0 {
		t.Errorf("%d bytes of history", bytes)
	}
}

func TestEncodedFormsAreKeptWithinABoundAndNotOfOldVersions(t *testing.T) {
	s := New(Options{})
	var stored []*Object
	put := func(i int) (o *Object) {
		s.Update(func(tx *Tx) error {
			o = tx.Put("t", Key{Name: fmt.Sprint(i)}, large(0), nil)
			return nil
		})
		return o
	}
	const size = 1 << 20
	for i := range 2 * encodedBytes / size {
		o := put(i)
		o.Keep("form", make([]byte, size))
		stored = append(stored, o)
	}
	kept := 0
	for _, o := range stored {
		length, body := o.Encoded("form")
		if body != nil {
			kept++
		}
		if length != size || body != nil && len(body) != size {
			t.Errorf("the length is %d and that of what is kept %d", length, len(body))
		}
	}
	if kept != encodedBytes/size {
		t.Errorf("%d forms are kept, want %d", kept, encodedBytes/size)
	}
	if length, body := stored[0].Encoded("another form"); length != 0 || body != nil {
		t.Errorf("another form has %d bytes: %.20q", length, body)
	}
	last := stored[len(stored)-1]
	put(len(stored) - 1)
	if length, body := last.Encoded("form"); length != 0 || body != nil {
		t.Errorf("the old version has %d bytes: %.20q", length, body)
	}
}
