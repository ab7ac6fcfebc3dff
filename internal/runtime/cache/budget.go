package cache

import (
	"math"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"skiff/internal/runtime/kube"
)

const (
	// shareOfMemory is the part of the process's memory limit for a mirror: garbage takes as much again, and there
	// are other mirrors.
	shareOfMemory = 3
	// unlimitedBytes bounds a mirror where no memory limit is known: some two million pods.
	unlimitedBytes = 2 << 30
)

// MemoryLimit returns GOMEMLIMIT, or the memory limit of the process's control group if less, and false where there
// is neither. Later calls return the result of the first.
func MemoryLimit() (bytes int64, limited bool) {
	limit := memoryLimit()
	return limit, limit <= math.MaxInt64/2 // "no limit" has several spellings
}

var memoryLimit = sync.OnceValue(func() int64 {
	limit := debug.SetMemoryLimit(-1)
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // there is no such control group
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			limit = min(limit, n)
		}
	}
	return limit
})

// defaultMaxBytes is the default bound of a mirror.
func defaultMaxBytes() int64 {
	if limit, limited := MemoryLimit(); limited {
		return limit / shareOfMemory
	}
	return unlimitedBytes
}

// entryBytes is the cost of an object in a mirror besides the object: a place in the map and in an index.
const entryBytes = 64

// sizeOf estimates the memory of an object. Strings shared by objects count for each, so the estimate is rather too
// much. sizeOf takes 0.3 us of the 20 of an event (BenchmarkSizeOf, BenchmarkEvents). The length on the wire says
// less: one sixteenth of a pod of 8.5 KB is kept, all of a pod with mostly labels, and namespaces share the budget.
func sizeOf(obj kube.Object) int64 {
	v := reflect.ValueOf(obj).Elem()
	m := obj.ObjectMeta()
	n := entryBytes + int(v.Type().Size()) + len(m.Name) + len(m.Namespace) + len(m.UID) + len(m.ResourceVersion)
	for i := range m.Labels {
		n += labelBytes + len(m.Labels[i].Key) + len(m.Labels[i].Value)
	}
	for i := range m.OwnerReferences {
		o := &m.OwnerReferences[i]
		n += ownerBytes + len(o.APIVersion) + len(o.Kind) + len(o.Name) + len(o.UID)
	}
	for _, f := range m.Finalizers {
		n += stringBytes + len(f)
	}
	return int64(n) + below(v)
}

// badBytes is the size of an object in quarantine besides the texts.
const badBytes = entryBytes + 256

// sizeOfBad is sizeOf for an object that does not decode.
func sizeOfBad(bad *kube.DecodeError) int64 {
	return int64(badBytes + 2*len(bad.Key.Name) + 2*len(bad.Key.Namespace) + len(bad.ResourceVersion) +
		len(bad.Error()))
}

// Sizes of the elements of slices in a Meta.
var (
	stringBytes = int(reflect.TypeFor[string]().Size())
	labelBytes  = int(reflect.TypeFor[kube.Label]().Size())
	ownerBytes  = int(reflect.TypeFor[kube.OwnerReference]().Size())
)

var metaType = reflect.TypeFor[kube.Meta]()

// below is the size of all a value points at, without the Meta of the object, which sizeOf counts.
func below(v reflect.Value) int64 {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return int64(v.Elem().Type().Size()) + below(v.Elem())
	case reflect.Slice:
		n := int64(v.Cap()) * int64(v.Type().Elem().Size())
		if flat(v.Type().Elem()) {
			return n
		}
		for i := range v.Len() {
			n += below(v.Index(i))
		}
		return n
	case reflect.Map:
		n := int64(0)
		for k, e := range v.Seq2() {
			n += int64(k.Type().Size()+e.Type().Size()) + below(k) + below(e)
		}
		return n
	case reflect.Struct:
		n := int64(0)
		for i := range v.NumField() {
			if f := v.Field(i); f.Type() != metaType && !flat(f.Type()) {
				n += below(f)
			}
		}
		return n
	}
	return 0
}

// flat says that values of a type point at nothing. (A time points at a zone, which all share.)
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map, reflect.Array:
		return false
	case reflect.Struct:
		return t.PkgPath() == "time"
	}
	return true
}
