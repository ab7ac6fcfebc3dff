package controller

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
)

func TestControllersOfASetComeAndGoWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSet(logr.Discard())
		var mu sync.Mutex // guards log
		var log []string
		note := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, text)
		}
		made := func(name string) *Controller {
			return New(name, func(ctx context.Context, _ kube.Key) (Outcome, error) {
				note("begins " + name)
				<-time.After(time.Second)
				note("ends " + name)
				return Done, nil
			}, Options{Log: logr.Discard()}, Once(kube.Key{Name: "x"}))
		}
		want := func(what string, lines ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(log); !slices.Equal(log, lines) {
				t.Errorf("%s: %q, want %q", what, log, lines)
			}
			log = nil
		}
		add := func(c *Controller) {
			t.Helper()
			if err := s.Add(c); err != nil {
				t.Error(err)
			}
		}
		first := made("first")
		add(first)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		want("at the start", "begins first")
		second := made("second")
		add(second)
		want("one more", "begins second")
		if err := s.Add(made("second")); err == nil {
			t.Error("two of one name")
		}
		if err := s.Remove(ctx, first); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		want("removed when its run has ended", "ends first", "ends second")
		add(made("first"))
		want("again under its name", "begins first")
		if all := s.All(); len(all) != 2 || all[0] != second {
			t.Errorf("there are %v", all)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want("all have stopped", "ends first")
		never := made("never")
		add(never)
		if err := s.Remove(context.Background(), never); err != nil {
			t.Error(err)
		}
	})
}

func TestAControllerOfASetThatFailsIsNoFailureOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSet(logr.Discard())
		broken := New("broken", nil, Options{Log: logr.Discard()}, Source{connect: func(*Controller) func() {
			return func() { panic("broken") }
		}})
		runs := make(chan string, 1)
		sound := New("sound", func(context.Context, kube.Key) (Outcome, error) {
			runs <- "sound"
			return Done, nil
		}, Options{Log: logr.Discard()}, Once(kube.Key{Name: "x"}))
		for _, c := range []*Controller{broken, sound} {
			if err := s.Add(c); err != nil {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		if err := s.Remove(ctx, broken); err != nil {
			t.Error(err)
		}
		if <-runs != "sound" {
			t.Error("the other one does not run")
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("no error says that one has panicked")
		}
	})
}
