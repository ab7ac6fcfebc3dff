//go:build race

package cache

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"reflect"
	"time"

	"skiff/internal/runtime/kube"
)

const mutationsAreChecked = true

// mutationCheck finds readers that change objects shared with all others. Each object has a fingerprint from the
// moment of entry into the Store; the next to meet the object changed panics, at the latest when the object leaves.
// Only builds with the race detector have the check, so all tests, without a switch.
type mutationCheck struct {
	seed   maphash.Seed
	prints map[kube.Object]uint64
}

func (c *mutationCheck) enter(obj kube.Object) {
	if c.prints == nil {
		c.seed, c.prints = maphash.MakeSeed(), map[kube.Object]uint64{}
	}
	c.prints[obj] = c.fingerprint(obj)
}

func (c *mutationCheck) leave(obj kube.Object) {
	c.verify(obj)
	delete(c.prints, obj)
}

func (c *mutationCheck) verify(obj kube.Object) {
	if want, ok := c.prints[obj]; !ok || c.fingerprint(obj) != want {
		panic(mutated(fmt.Sprintf("cache: a reader has changed %T %s, which all readers share: copy before you change",
			obj, obj.ObjectMeta().Key())))
	}
}

func (c *mutationCheck) fingerprint(obj kube.Object) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	hashValue(&h, reflect.ValueOf(obj))
	return h.Sum64()
}

var timeType = reflect.TypeFor[time.Time]()

func hashValue(h *maphash.Hash, v reflect.Value) {
	var n [8]byte
	word := func(u uint64) {
		binary.LittleEndian.PutUint64(n[:], u)
		h.Write(n[:])
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			word(0)
			return
		}
		hashValue(h, v.Elem())
	case reflect.Struct:
		if v.Type() == timeType && v.CanInterface() { // asked in this order: Interface copies the struct
			word(uint64(v.Interface().(time.Time).UnixNano()))
			return
		}
		for i := range v.NumField() {
			hashValue(h, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		word(uint64(v.Len()))
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 { // raw JSON: long, and met often
			h.Write(v.Bytes())
			return
		}
		for i := range v.Len() {
			hashValue(h, v.Index(i))
		}
	case reflect.Map:
		var sum uint64 // the order of a map is random, so the entries are added up
		for k, e := range v.Seq2() {
			var one maphash.Hash
			one.SetSeed(h.Seed())
			hashValue(&one, k)
			hashValue(&one, e)
			sum += one.Sum64()
		}
		word(sum)
	case reflect.String:
		word(uint64(v.Len()))
		h.WriteString(v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		word(uint64(v.Int()))
	case reflect.Bool:
		if v.Bool() {
			word(1)
		} else {
			word(2)
		}
	default:
		fmt.Fprintf(h, "%v;", v) // other numbers
	}
}
