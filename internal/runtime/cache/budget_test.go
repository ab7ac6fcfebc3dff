package cache

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
)

// heavyPods are n pods of about 1 KB each as a mirror holds them.
func heavyPods(n int) (items, events []string) {
	for i := range n {
		item := strings.Replace(object(fmt.Sprintf("p%03d", i), fmt.Sprint(i+1), i), `"uid"`,
			fmt.Sprintf(`"labels":{"long":"%0900d"},"uid"`, i), 1)
		items, events = append(items, item), append(events, event("ADDED", item))
	}
	return items, events
}
func TestTheSizeOfAnObjectIsAboutWhatItTakes(t *testing.T) {
	inOneTurn(t, "no server is in it")
	const n = 2000
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s, sc := filled()
	for i := range n {
		p := makePod("default", fmt.Sprintf("pod-%05d", i), i+3, fmt.Sprintf("owner-%d", i))
		p.Labels = kube.Labels{{Key: "app", Value: strings.Repeat("x", i%100)}}
		s.bring(sc, p, p.ResourceVersion)
	}
	took, said := heap()-before, s.Bytes()
	if !mutationsAreChecked && (said < took/2 || said > 2*took) {
		t.Errorf("%d bytes are said to be taken, the heap grew by %d", said, took)
	}
	for i := range n {
		s.remove(sc, kube.Key{Namespace: "default", Name: fmt.Sprintf("pod-%05d", i)}, kube.Part{}, "9999",
			Change[*pod]{Type: Gone})
	}
	if left := s.Bytes(); left != 0 {
		t.Errorf("%d bytes are left of an empty mirror", left)
	}
	runtime.KeepAlive(s)
}

func TestADigestCostsItsNameAndAFixedSize(t *testing.T) {
	type source struct {
		kube.Meta `json:"metadata"`
		Data      kube.Digests        `json:"data"`
		Binary    kube.EncodedDigests `json:"binaryData"`
	}
	var one, two *source
	for text, into := range map[string]**source{
		`{"metadata":{"name":"a"}}`: &one,
		`{"metadata":{"name":"a"},"data":{"12345":"` + strings.Repeat("x", 1<<20) + `","b":""},"binaryData":{"c":""}}`: &two,
	} {
		if err := kube.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if more := sizeOf(two) - sizeOf(one); more != 3*32+5+1+1 {
		t.Errorf("three digests take %d bytes", more)
	}
}

func BenchmarkSizeOf(b *testing.B) {
	p := makePod("default", "a", 1, "u")
	b.ReportAllocs()
	for b.Loop() {
		sizeOf(p)
	}
}
