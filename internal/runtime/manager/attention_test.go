package manager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/page"
)

// thing is a ConfigMap with the conditions that its data names: "TYPE: STATUS/REASON".
type thing struct{ configMap }

func (t *thing) Shown() (out []conditions.Condition) {
	for _, name := range []string{conditions.Ready, conditions.Degraded, conditions.Stalled, conditions.Paused} {
		if status, reason, ok := strings.Cut(t.Data[name], "/"); ok {
			out = append(out, conditions.Condition{Type: name, Status: conditions.Status(status), Reason: reason,
				LastTransitionTime: t.CreationTimestamp})
		}
	}
	return out
}

// things returns a controller of config maps that fails for those that say so.
func things(client *kube.Client) *controller.Controller {
	store := cache.New[*thing](cache.Options{Resource: configMaps, Client: client, LabelSelector: "by=test"})
	return controller.New("things", func(_ context.Context, k kube.Key) (controller.Outcome, error) {
		one, ok, err := store.Get(k)
		switch {
		case err != nil || !ok:
			return controller.Done, err
		case one.Data["fails"] == "for good":
			return controller.Done, controller.Terminal(errors.New("canary"))
		case one.Data["fails"] != "":
			return controller.Done, errors.New("canary")
		}
		return controller.Done, nil
	}, controller.Options{}, controller.For(store))
}

// Rules: LP-10, LP-11
func TestWhatBreaksNeedsAttentionWithinTwoSecondsAndNoLongerWhenItIsMended(t *testing.T) {
	data := func(values map[string]any) func(*testing.T, *kube.Client) {
		return func(t *testing.T, client *kube.Client) {
			t.Helper()
			err := client.Patch(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "one"}, kube.MergePatch,
				map[string]any{"data": values}, nil, kube.WriteOptions{})
			expectNoError(t, err)
		}
	}
	for _, test := range []struct {
		state, reason string
		after         time.Duration // from when it counts as broken
		next          bool          // it is tried again at a time
		broken        map[string]any
		mended        map[string]any
	}{
		{"stalled", "InvalidSpec", 0, false, map[string]any{"Stalled": "True/InvalidSpec"},
			map[string]any{"Stalled": nil}},
		{"stalled", "Error", 0, true, map[string]any{"fails": "for good"}, map[string]any{"fails": nil}},
		{"failing", "Error", 0, true, map[string]any{"fails": "now"}, map[string]any{"fails": nil}},
		{"degraded", "NameTaken", 0, false, map[string]any{"Degraded": "True/NameTaken"},
			map[string]any{"Degraded": "False/AsDeclared"}},
		{"contested", "Contested", 0, false, map[string]any{"Degraded": "True/Contested"},
			map[string]any{"Degraded": nil}},
		{"waiting", "Rollout", 5 * time.Minute, false, map[string]any{"Ready": "False/Rollout"},
			map[string]any{"Ready": "True/Complete"}},
	} {
		t.Run(test.state+" "+test.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client := newServer(t)
				all := runAll(t, Options{Controllers: []*controller.Controller{things(client)}, Client: client,
					PageAddr: "page"})
				createMap(t, client, "one")
				time.Sleep(time.Second)
				expect(t, "well at first", stateOf(t, all.page).Banner.Well, true)
				data(test.broken)(t, client)
				time.Sleep(test.after + 2*time.Second)
				s := stateOf(t, all.page)
				if len(s.Attention) != 1 {
					t.Fatalf("attention is for %+v", s.Attention)
				}
				got := s.Attention[0]
				if got.State != test.state || got.Reason != test.reason || got.Step == "" || got.Since.IsZero() ||
					got.Command != "kubectl describe configmaps one -n default" ||
					test.next != got.Next.After(s.Time) {
					t.Errorf("attention is for %+v", got)
				}
				if !strings.HasSuffix(s.Banner.Text, "; first: ConfigMap default/one, "+test.reason) {
					t.Errorf("the banner says %q", s.Banner.Text)
				}
				data(test.mended)(t, client)
				time.Sleep(2 * time.Second)
				if s := stateOf(t, all.page); !s.Banner.Well || len(s.Attention) != 0 {
					t.Errorf("when it is mended: %+v", s)
				}
				expect(t, "stop", all.stop(), nil)
			})
		})
	}
}

// Rules: LP-08, LP-10, LP-11, LP-17
func TestWhatIsMissingAndWhatDoesNotAnswerNeedsAttentionFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, client := newServer(t)
		pipe := api.ListenPipe()
		defer pipe.Close()
		broken, err := kube.New(kube.Config{Server: "http://api.test", DialContext: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer broken.Close()
		var j journal
		controllers := []*controller.Controller{things(client), j.noting("webserver", client, webServers),
			j.noting("maps", broken, configMaps)}
		all := runAll(t, Options{PageAddr: "page", Client: broken, Controllers: controllers,
			Attention: func() []health.Problem {
				return []health.Problem{{Reason: "OldDefinition", Public: "the definition is older",
					Next: "install it", Quoted: "spec.a; canary"}}
			}})
		one := func(states ...string) (found []page.Trouble) {
			t.Helper()
			var got []string
			s := stateOf(t, all.page)
			for _, trouble := range s.Attention {
				got = append(got, trouble.State+" "+trouble.Object()+": "+trouble.Reason)
				found = append(found, trouble)
			}
			if !slices.Equal(got, states) {
				t.Fatalf("attention is for\n%q, want\n%q", got, states)
			}
			return found
		}
		const older = "process skiff: OldDefinition"
		createMap(t, client, "one")
		time.Sleep(2 * time.Second)
		found := one(older, "missing controller webserver in namespace default: NotFound")
		if step := found[0].Step; step != "install it" {
			t.Errorf("the next step is %q", step)
		}
		if step := found[1].Step; step != "not working: namespace default: webservers.skiff.dev: the server does not "+
			"have this resource; install its CRD" {
			t.Errorf("the next step is %q", step)
		}
		defineWebServers(t, client)
		time.Sleep(15 * time.Second)
		one(older)

		pipe.Blackhole(true)         // the server of one client freezes
		time.Sleep(26 * time.Second) // it has to be said within 30 s
		found = one("process skiff: NoAnswer", older)
		if text := stateOf(t, all.page).Banner.Text; !strings.Contains(text, "; first: skiff, no answer from ") {
			t.Errorf("the banner says %s", text)
		}
		if lost := found[0]; lost.Since.IsZero() || !strings.HasPrefix(lost.Step, "check the API server and ") {
			t.Errorf("it says %+v", lost)
		}
		pipe.Blackhole(false)
		time.Sleep(30 * time.Second)
		one(older)
		expect(t, "stop", all.stop(), nil)
	})
}
