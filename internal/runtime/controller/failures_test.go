package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// One tenant with a thousand bad objects, of many kinds of bad, beside others with one each.
func TestNoNamespaceHidesTheFailuresOfAnother(t *testing.T) {
	var s streaks
	add := func(namespace, name string, err error) {
		s.add(kube.Key{Namespace: namespace, Name: name}, next(err, streak{}, time.Now()), err)
	}
	for i := range 1000 {
		add("t3", fmt.Sprintf("o%03d", i), TerminalFor("TemplateRefused", fmt.Errorf("privileged in o%03d", i)))
	}
	for i := range 100 {
		add("t3", fmt.Sprintf("p%03d", i), &kube.Status{Code: 422, Reason: fmt.Sprintf("Odd%d", i), Message: "odd"})
	}
	for _, namespace := range []string{"a", "b", "c", "z"} {
		add(namespace, "one", TerminalFor("InvalidSpec", errors.New("no image")))
	}
	lines := s.describe("WebServer", time.Now())
	if len(lines) != maxFailing+1 || lines[maxFailing] != "failing: 85 more" {
		t.Fatalf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
	for i, want := range []string{"refused: a/one for 0s, once: no image", "refused: b/one ", "refused: c/one ",
		"refused: 1000 WebServers in t3 (TemplateRefused), first t3/o000 for 0s, once: privileged in o000",
		"refused: z/one ", "refused: t3/p"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}
