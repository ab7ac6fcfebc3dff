package patch

import (
	"errors"
	"testing"
)

func FuzzMeasure(f *testing.F) {
	for _, text := range hostile() {
		f.Add([]byte(text[:min(len(text), 300)]))
	}
	f.Add([]byte(`{"a":[1,-2.5e3,true,null,"\"\\\u00e9",{}],"b":{"c":[[]]},"b":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 20
		bytes, err := Measure(data, limit, MaxDepth)
		d := decoder{reader: reader{data: data}, limit: limit}
		if _, decoding := d.value(); decoding == nil && err == nil && d.memory > bytes {
			t.Errorf("%q takes %d bytes, measured are %d", data, d.memory, bytes)
		}
		_, _, decoding := DecodeWithin(data, limit, MaxDepth)
		if decoding == nil && err != nil && !errors.Is(err, ErrTooComplex) {
			t.Errorf("%q: %v, but it can be decoded", data, err)
		}
	})
}

func TestMeasuringAHostileObjectTakesNoMemoryAndRefusesWhatDecodingDoes(t *testing.T) {
	for name, text := range hostile() {
		var measured int
		var err error
		cost := testing.AllocsPerRun(1, func() { measured, err = Measure([]byte(text), maxMemory, MaxDepth) })
		if cost > 20 {
			t.Errorf("%s: %v allocations", name, cost)
		}
		_, _, decoding := DecodeLenient([]byte(text))
		if errors.Is(decoding, ErrTooComplex) != errors.Is(err, ErrTooComplex) && name != "duplicates" {
			t.Errorf("%s: measuring: %v (%d bytes), decoding: %v", name, err, measured, decoding)
		}
	}
}
