package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

func TestAFloodOfLinesIsCutAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := must((&logFlags{format: "text"}).logger(&out))(t)
		failed := func(namespace string, i int) {
			key := []any{"key", kube.Key{Namespace: namespace, Name: fmt.Sprint(i)}}
			if i%2 == 0 { // either way
				log.WithValues(key...).Error(errors.New("no"), "reconcile failed")
			} else {
				log.Error(errors.New("no"), "reconcile failed", key...)
			}
		}
		for i := range 38_000 {
			failed("hostile", i)
			time.Sleep(17 * time.Second / 38_000)
		}
		const one = linesBurst/namespaceShare + 17*linesPerSecond/namespaceShare
		if n := strings.Count(out.String(), "\n"); n < one || n > one+3 {
			t.Errorf("one namespace: %d lines, want %d and some that count others", n, one)
		}
		out.Reset()
		failed("victim", 0) // its lines are not left out
		log.Info("stopped") // nor those of another message
		if text := out.String(); !strings.Contains(text, "victim/0") || !strings.Contains(text, "stopped") {
			t.Errorf("lines that matter were left out: %s", text)
		}
		for i := range 100_000 { // more namespaces than are counted
			failed(fmt.Sprint("ns", i), 0)
		}
		if n := strings.Count(out.String(), "\n"); n > linesBurst {
			t.Errorf("many namespaces: %d lines", n)
		}
		time.Sleep(time.Hour)
		out.Reset()
		failed("victim", 1)
		if text := out.String(); !strings.Contains(text, `lines were left out`) ||
			!strings.Contains(text, `message="reconcile failed" lines=`) || !strings.Contains(text, "victim/1") {
			t.Errorf("after an hour: %s", text)
		}
	})
}

func TestWithVerbosity1NoLineIsLeftOut(t *testing.T) {
	var out bytes.Buffer
	log := must((&logFlags{format: "json", verbosity: 1}).logger(&out))(t)
	for range 2 * linesBurst {
		log.Info("reconciled", "key", kube.Key{Namespace: "default", Name: "web"})
	}
	if n := strings.Count(out.String(), "\n"); n != 2*linesBurst {
		t.Errorf("%d lines of %d", n, 2*linesBurst)
	}
}
