package patch

import "unique"

// Text is a JSON value that is kept encoded: it takes a fraction of the memory of the decoded value, and equal texts
// share theirs. [Encode] writes it as it is and [Equal] compares the text; no other function looks inside.
type Text struct{ handle unique.Handle[string] }

// NewText returns a value with this JSON text, which the caller has checked.
func NewText(json string) Text { return Text{unique.Make(json)} }

// String returns the JSON text.
func (t Text) String() string { return t.handle.Value() }

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return []byte(t.String()), nil }
