package process

import (
	"errors"
	"strings"
	"testing"
)

func TestContainMakesAnErrorOfAPanic(t *testing.T) {
	plain := errors.New("plain")
	if err := Contain("work", func() error { return plain }); err != plain {
		t.Errorf("an error became %v", err)
	}
	err := Contain("work", func() error { panic("a bug") })
	p := new(Panic)
	if !errors.As(err, &p) || err.Error() != "work: panic: a bug" || p.Value != "a bug" {
		t.Fatalf("a panic became %v", err)
	}
	if !strings.Contains(string(p.Stack), "TestContainMakesAnErrorOfAPanic") {
		t.Errorf("the stack does not lead here:\n%s", p.Stack)
	}
}
