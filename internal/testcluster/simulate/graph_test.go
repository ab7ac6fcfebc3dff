package simulate

import (
	"fmt"
	"testing"

	"skiff/internal/runtime/kube"
)

func BenchmarkGraph10kObjects(b *testing.B) {
	var all []vertex
	for i := range 10_000 {
		o := &object{}
		o.UID = fmt.Sprint(i)
		if i > 100 {
			o.OwnerReferences = []kube.OwnerReference{{UID: fmt.Sprint(i % 100)}}
		}
		all = append(all, vertex{o, podResource})
	}
	for b.Loop() {
		newGraph(all)
	}
}
