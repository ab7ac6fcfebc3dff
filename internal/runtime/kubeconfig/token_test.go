package kubeconfig

import (
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// tokenBox loads a token file's credentials in a bubble of virtual time.
func tokenBox(t *testing.T, content string) (*box, *tokenFile) {
	t.Helper()
	b := newBox(t)
	b.write("tok", content)
	cfg, _, err := b.load(Flags{Server: "https://h", TokenFile: b.path("tok")})
	if err != nil {
		t.Fatal(err)
	}
	return b, cfg.Credentials.(*tokenFile)
}

func wantToken(t *testing.T, f *tokenFile, want string) {
	t.Helper()
	got, err := f.Authorization(t.Context())
	if err != nil || got != "Bearer "+want {
		t.Errorf("token %q, error %v, want %q", got, err, want)
	}
}

// Rules: AUTH-02
func TestTokenFileIsReadAgainWithinAMinuteAndTheLastGoodTokenServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := tokenBox(t, "  one\n\n")
		wantToken(t, f, "one")

		// A projected volume is updated by a symlink swap.
		b.write("data2/tok", "two")
		os.Remove(b.path("tok"))
		if err := os.Symlink(b.path("data2/tok"), b.path("tok")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(tokenMaxAge - time.Second)
		wantToken(t, f, "one")
		time.Sleep(time.Second)
		wantToken(t, f, "two")

		os.Remove(b.path("tok"))
		time.Sleep(time.Minute)
		wantToken(t, f, "two")
		wantToken(t, f, "two") // without another read, which would be another warning
		b.write("tok", "\n")
		time.Sleep(tokenRetry)
		wantToken(t, f, "two")
		b.write("tok", "three")
		time.Sleep(tokenRetry)
		wantToken(t, f, "three")

		if len(b.warnings) != 2 || !strings.Contains(b.warnings[0], "--token-file: ") ||
			!strings.Contains(b.warnings[1], "is empty") {
			t.Errorf("warnings %q: one for each failed read", b.warnings)
		}
		for _, w := range b.warnings {
			if strings.Contains(w, "two") {
				t.Errorf("warning shows the token: %q", w)
			}
		}
	})
}

// Rules: AUTH-03
func TestA401InvalidatesOnlyATokenThatWasReadBeforeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := tokenBox(t, "one")
		b.write("tok", "two")
		time.Sleep(time.Second)
		sent := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				f.Invalidate(sent)
				if tok, err := f.Authorization(t.Context()); err != nil || tok != "Bearer two" {
					t.Errorf("token %q, error %v", tok, err)
				}
			})
		}
		wg.Wait()

		// The token has been read after that request: its late 401s say nothing about it.
		time.Sleep(time.Second)
		b.write("tok", "three")
		f.Invalidate(sent)
		wantToken(t, f, "two")
		f.Invalidate(time.Now())
		wantToken(t, f, "three")
	})
}

func TestA401WithNoNewTokenKeepsTheOldOneAndDoesNotReadInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := tokenBox(t, "one")
		os.Remove(b.path("tok"))
		for range 10 {
			time.Sleep(time.Second)
			f.Invalidate(time.Now())
			wantToken(t, f, "one")
		}
		if n := len(b.warnings); n != 2 {
			t.Errorf("%d reads in ten seconds of 401s, want one each %s", n, tokenRetry)
		}
	})
}
