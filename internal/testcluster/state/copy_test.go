package state

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
)

// copied copies the pods of a server that answers a list with pages.
func copied(t *testing.T, page func(query string) (status int, body string)) (*State, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := page(r.URL.Query().Get("continue"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	client, err := kube.New(kube.Config{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := &copying{State: &State{}, client: client}
	return s.State, s.list(t.Context(), kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}, "", "")
}

func pageOf(next, items string) string {
	return `{"metadata":{"continue":"` + next + `"},"items":[` + items + `]}`
}

const expired = `{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}`

// Rules: PL-23
func TestAListThatTheServerHasForgottenIsBegunAgain(t *testing.T) {
	const thrice = "copy pods: the server forgot the list 3 times before its end: "
	for forgets, want := range map[int]string{1: "", 2: "", 3: thrice} {
		s, err := copied(t, func(next string) (int, string) {
			switch {
			case next == "":
				return http.StatusOK, pageOf("second", `{"metadata":{"name":"a"}}`)
			case forgets > 0:
				forgets--
				return http.StatusGone, expired
			}
			return http.StatusOK, pageOf("", `{"metadata":{"name":"b"}}`)
		})
		if want == "" && (err != nil || len(s.Objects) != 2) {
			t.Errorf("%d objects, %v", len(s.Objects), err)
		}
		if want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Rules: PL-23
func TestAListThatNeverEndsIsAnError(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("{},", 10_000), ",")
	for items, want := range map[string]string{"": "copy pods: the list does not end: 2000 pages have come",
		many: "copy pods: the copy has more than 100000 objects: copy fewer namespaces"} {
		_, err := copied(t, func(string) (int, string) { return http.StatusOK, pageOf("more", items) })
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
