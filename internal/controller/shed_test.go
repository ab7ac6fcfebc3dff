package controller

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/kube"
)

func TestTheObjectsOfANamespaceAreToldOneAfterTheOther(t *testing.T) {
	var p paces
	now := time.Now()
	key := func(namespace string, i int) kube.Key { return kube.Key{Namespace: namespace, Name: fmt.Sprint(i)} }
	for i := range 10 {
		if wait, ok := p.claim(key("a", i), now); !ok || wait != time.Duration(i)*tellEvery {
			t.Errorf("%d waits for %s, want %s", i, wait, time.Duration(i)*tellEvery)
		}
	}
	if wait, ok := p.claim(key("b", 0), now); !ok || wait != 0 {
		t.Errorf("another namespace waits for %s", wait)
	}
	now = now.Add(5 * tellEvery)
	if wait, _ := p.claim(key("a", 5), now); wait != 0 {
		t.Errorf("at its time it waits for %s", wait)
	}
	for i := range maxTold + 100 {
		p.claim(key("c", i), now)
	}
	if len(p.at) > maxTold {
		t.Errorf("%d wait", len(p.at))
	}
	if _, ok := p.claim(key("c", maxTold+200), now); ok {
		t.Error("one more waits than may")
	}
}
