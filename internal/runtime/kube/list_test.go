package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func item(name, rv string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","uid":"u-%s","resourceVersion":%q}}`, name, name, rv)
}

func podList(rv, token string, items ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`,
		rv, token, strings.Join(items, ","))
}

// Rules: LST-01, LST-02
func TestTheResumePointIsTheVersionOfTheListAndNotThatOfAnItem(t *testing.T) {
	body := podList("20", "", item("a", "5"), item("b", "29"), item("c", "7"))
	got, err := listPods(t, answer(200, body), ListOptions{})
	if err != nil || got.ResourceVersion != "20" || len(got.Items) != 3 {
		t.Errorf("got version %s with %v, %v, want 20 with three pods", got.ResourceVersion, names(got.Items), err)
	}
	if _, err := listPods(t, answer(200, podList("", "", item("a", "5"))), ListOptions{}); err == nil ||
		!strings.Contains(err.Error(), "no resource version") {
		t.Errorf("got %v, want an error about the missing resource version", err)
	}
}

// Rules: LST-03, LST-07, LST-13, LST-15
func TestPagesRepeatTheSelectorsAndOnlyTheFirstCarriesTheVersion(t *testing.T) {
	s := scripted(
		answer(200, podList("20", "one", item("a", "5"))),
		answer(200, podList("20", "two")), // empty, and still not the last
		answer(200, podList("20", "", item("b", "6"))),
	)
	c := tlsClient(t, s)
	got, err := List[*pod](t.Context(), c,
		Query{Resource: pods, Namespace: "default", LabelSelector: "app in (a,b),!x"},
		ListOptions{ResourceVersion: "19", ResourceVersionMatch: "NotOlderThan", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(names(got.Items), []string{"a", "b"}) {
		t.Errorf("got pods %v, want a and b", names(got.Items))
	}
	for i, r := range s.requests() {
		q := r.URL.Query()
		if r.URL.Path != "/api/v1/namespaces/default/pods" || q.Get("limit") != "1" ||
			q.Get("labelSelector") != "app in (a,b),!x" {
			t.Errorf("page %d asked for %s", i+1, r.URL)
		}
		if first := i == 0; q.Has("resourceVersion") != first || q.Has("resourceVersionMatch") != first ||
			q.Has("continue") == first {
			t.Errorf("page %d asked for %s: a resource version belongs to the first page, a token to the others",
				i+1, r.URL)
		}
	}
	if _, err := List[*pod](t.Context(), c, Query{Resource: pods}, ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if last := s.requests()[3].URL.Query(); last.Has("resourceVersion") {
		t.Errorf("a first list asked for %v, want the present state: no resource version", last)
	}
}

// A server that has taken the place of another one does not know its tokens (400).
//
// Rules: LST-08, LST-09, LST-10, LST-11
func TestWhereTheSnapshotOfAListIsLostItIsReadAgainInOnePieceAtTheVersionAskedFor(t *testing.T) {
	for name, second := range map[string]http.HandlerFunc{
		"a page of another version": answer(200, podList("25", "", item("c", "6"))),
		"an expired token":          failure(410, "Expired", `,"metadata":{"continue":"inconsistent"}`),
		"a token that is refused":   failure(400, "BadRequest", ""),
	} {
		s := scripted(answer(200, podList("20", "one", item("a", "5"), item("b", "6"))), second,
			answer(200, podList("30", "", item("b", "6"), item("c", "28"))))
		got, err := listPods(t, s, ListOptions{ResourceVersion: "18"})
		if err != nil || got.ResourceVersion != "30" || !slices.Equal(names(got.Items), []string{"b", "c"}) {
			t.Errorf("%s: got %v at %s, %v, want b and c at 30", name, names(got.Items), got.ResourceVersion, err)
		}
		reqs := s.requests()
		if q := reqs[len(reqs)-1].URL.Query(); len(reqs) != 3 || q.Has("limit") || q.Has("continue") ||
			q.Get("resourceVersion") != "18" {
			t.Errorf("%s: %d requests, the last for %v; want three, the last in one piece at 18", name, len(reqs), q)
		}
	}
}

// Rules: WCH-08
func TestA410OnTheFirstPageIsGone(t *testing.T) {
	s := scripted(failure(410, "Expired", ""))
	_, err := listPods(t, s, ListOptions{ResourceVersion: "1"})
	if !IsGone(err) || len(s.requests()) != 1 {
		t.Errorf("got %v after %d requests, want Gone after one", err, len(s.requests()))
	}
}

// Rules: LST-12, LST-14, LST-20
func TestWhatAServerMayDoWithALimitAndAnEmptyList(t *testing.T) {
	many := podList("20", "", item("a", "1"), item("b", "2"), item("c", "3"))
	many = strings.Replace(many, `"continue":""`, `"continue":"","remainingItemCount":1000000000`, 1)
	got, err := listPods(t, answer(200, many), ListOptions{Limit: 2})
	if err != nil || len(got.Items) != 3 {
		t.Errorf("a limit that is not kept: got %v, %v, want three pods", names(got.Items), err)
	}
	null := `{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":null}`
	got, err = listPods(t, answer(200, null), ListOptions{})
	if err != nil || len(got.Items) != 0 || got.ResourceVersion != "7" {
		t.Errorf("items null: got %v, %v, want an empty list at 7", names(got.Items), err)
	}
}

// Rules: LST-19
func TestAnItemThatDoesNotDecodeLeavesTheOthers(t *testing.T) {
	bad := `{"metadata":{"name":"bad","namespace":"default","resourceVersion":"9"},"spec":{"nodeName":{"a":[1,{"b":2}]},"priority":3},"status":{}}`
	body := podList("20", "", item("a", "1"), bad, `null`, `7`, `{"metadata":{"labels":{"a":1}}}`,
		`{"metadata":{"name":"num","resourceVersion":"8"},"spec":{"priority":"high"}}`, item("z", "2"))
	got, err := listPods(t, answer(200, body), ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(names(got.Items), []string{"a", "z"}) {
		t.Errorf("got pods %v, want a and z", names(got.Items))
	}
	if len(got.Bad) != 5 || got.Bad[0].Key != (Key{"default", "bad"}) || got.Bad[0].ResourceVersion != "9" ||
		got.Bad[4].Key.Name != "num" {
		t.Errorf("got bad items %v, want five, the first default/bad and the last num", got.Bad)
	}
}

// Rules: LST-25, WCH-46
func TestAnAnswerOfAnotherKindIsAnErrorThatSaysWhatCame(t *testing.T) {
	html := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<html>please log in</html>")
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a table":             {answer(200, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"2"},"rows":[]}`), `kind "Table", want "PodList"`},
		"another list":        {answer(200, `{"kind":"NodeList","metadata":{"resourceVersion":"2"},"items":[]}`), `kind "NodeList"`},
		"a page of a proxy":   {html, "please log in"},
		"half a list":         {answer(200, `{"kind":"PodList","metadata":{"resourceVersion":"2"},"items":[`), "unexpected EOF"},
		"nothing":             {answer(200, ``), "unexpected EOF"},
		"a list of no object": {answer(200, `[]`), "want an object"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := listPods(t, tc.answer, ListOptions{})
			if err == nil || !strings.Contains(err.Error(), tc.want) ||
				!strings.HasPrefix(err.Error(), "list pods: ") {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if len(got.Items) > 0 {
				t.Errorf("got items %v with an error", names(got.Items))
			}
		})
	}
}

// Rules: LST-21, NET-21
func TestAListThatStandsStillEndsAfterTheServersOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind":"PodList","items":[`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		began := time.Now()
		_, err := listPods(t, http.HandlerFunc(stall), ListOptions{})
		if took := time.Since(began); err == nil || took < time.Minute || took > 2*time.Minute {
			t.Errorf("got %v after %s, want an idle error in the second minute", err, took)
		}
	})
}

// told is a field that tells when it has been decoded.
type told struct{}

var decoded = make(chan struct{}, 100)

func (*told) UnmarshalJSON([]byte) error { decoded <- struct{}{}; return nil }

// Rules: LST-17
func TestItemsAreDecodedWhileTheRestOfTheListIsStillToCome(t *testing.T) {
	type telling struct {
		Meta `json:"metadata"`
		Spec told `json:"spec"`
	}
	s := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PodList","metadata":{"resourceVersion":"20"},"items":[`)
		for i := range 100 {
			fmt.Fprintf(w, `{"metadata":{"name":"p%d","namespace":"a"},"spec":{}},`, i)
			w.(http.Flusher).Flush()
			select {
			case <-decoded:
			case <-r.Context().Done():
				t.Errorf("item %d was not decoded before the next one came", i)
				return
			}
		}
		fmt.Fprint(w, `{"metadata":{"name":"last"}}]}`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := List[*telling](ctx, pipeClient(t, http.HandlerFunc(s)), Query{Resource: pods}, ListOptions{})
	if err != nil || len(got.Items) != 101 {
		t.Errorf("got %d items, %v; want 101", len(got.Items), err)
	}
}

func TestAListOfCustomResourcesHasItsKindBehindTheItems(t *testing.T) {
	body := `{"apiVersion":"skiff.dev/v1alpha1","items":[` + item("a", "5") + `],"kind":"PodList","metadata":{"resourceVersion":"20"}}`
	got, err := listPods(t, answer(200, body), ListOptions{})
	if err != nil || !slices.Equal(names(got.Items), []string{"a"}) || got.ResourceVersion != "20" {
		t.Errorf("got %v at %s, %v; want a at 20", names(got.Items), got.ResourceVersion, err)
	}
}
