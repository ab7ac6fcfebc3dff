package apiserver

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
)

// What no fault of a single request is: the order of things, and what changes behind a client's back.

// Rules: FS-44, FI-11
func TestTheAnswerToAWriteAndItsEventCanComeInEitherOrder(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		watch := w.watch(configMaps + "?watch=true&resourceVersion=" + fmt.Sprint(w.s.Revision()))
		defer watch.close()
		seen := make(chan time.Time, 100)
		var reader sync.WaitGroup
		reader.Go(func() {
			for range 40 {
				watch.next()
				seen <- time.Now()
			}
		})
		remove := w.s.Inject(Fault{Verb: "create", Probability: 0.5, AnswerDelay: time.Second})
		defer remove()
		first := map[string]int{}
		for i := range 40 {
			got := w.must(201, "POST", configMaps, configMap(fmt.Sprint("c", i)))
			answered := time.Now()
			synctest.Wait() // virtual time stands still: what is seen now was seen before the answer, or with it
			if event := <-seen; event.Before(answered) {
				first["event"]++
			} else {
				first["answer"]++
			}
			if got.at("metadata.name") != fmt.Sprint("c", i) {
				t.Error(got.raw)
			}
		}
		reader.Wait()
		if first["event"] < 5 || first["answer"] < 5 {
			t.Errorf("what came first: %v, want both now and then", first)
		}
		remove()

		// The other way round: the answer is there long before the event.
		slow := w.s.Inject(Fault{Verb: "watch", Watch: WatchFault{EventDelay: time.Second}})
		late := w.watch(configMaps + "?watch=true&resourceVersion=" + fmt.Sprint(w.s.Revision()))
		defer late.close()
		slow()
		w.must(201, "POST", configMaps, configMap("late"))
		answered := time.Now()
		if late.next(); time.Since(answered) != time.Second {
			t.Errorf("the event came %v after the answer, want a second", time.Since(answered))
		}
	})
}

// Rules: FS-44
func TestAllWatchersSeeAllCommitsInOneOrder(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		const writers, writes = 8, 25
		from := fmt.Sprint(w.s.Revision())
		var all sync.WaitGroup
		orders := make([]string, 3)
		for i := range orders {
			watch := w.watch(configMaps + "?watch=true&resourceVersion=" + from)
			all.Go(func() {
				defer watch.close()
				last := int64(0)
				for range writers * writes {
					f := watch.next()
					v, err := strconv.ParseInt(fmt.Sprint(f.at("metadata.resourceVersion")), 10, 64)
					if err != nil || v <= last {
						t.Errorf("version %d after %d: %v", v, last, err)
					}
					last = v
					orders[i] += fmt.Sprint(f.Type, f.at("metadata.name"), f.at("data.n"), " ")
				}
			})
		}
		for i := range writers {
			all.Go(func() {
				name := fmt.Sprint("c", i)
				w.must(201, "POST", configMaps, configMap(name))
				// each write builds upon the one before: no answer may be older than its own commit
				for n := 1; n < writes; n++ {
					was := w.must(200, "GET", configMaps+"/"+name, "")
					body := obj.Clone(was.body)
					obj.Set(body, fmt.Sprint(n), "data", "n")
					w.must(200, "PUT", configMaps+"/"+name, string(httpd.Encode(body)))
				}
			})
		}
		all.Wait()
		if orders[0] != orders[1] || orders[0] != orders[2] {
			t.Error("the watchers saw different orders")
		}
	})
}

func TestATokenCanBeReplacedAtAnyTime(t *testing.T) {
	withServer(t, Options{Token: "first"}, func(w *testServer) {
		first, second := []string{"Authorization", "Bearer first"}, []string{"Authorization", "Bearer second"}
		watch := w.watch(configMaps+"?watch=true", first...)
		defer watch.close()
		w.s.SetToken("second")
		if a := w.must(401, "GET", configMaps, "", first...); a.at("reason") != "Unauthorized" {
			t.Error(a.raw)
		}
		w.must(201, "POST", configMaps, configMap("a"), second...)
		if f := watch.next(); f.at("metadata.name") != "a" {
			t.Errorf("the watch that was open: %v", f)
		}
	})
}

// Rules: FI-08, FS-43
func TestARestoredBackupHasTheOldObjectsAndResourceVersions(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		kept := w.must(201, "POST", configMaps, configMap("kept"))
		backup, at := w.s.Snapshot(), w.s.Revision()
		w.must(200, "PATCH", configMaps+"/kept", `{"data":{"a":"c"}}`, "Content-Type", "application/merge-patch+json")
		w.create(configMaps, "lost1", "lost2", "lost3")
		w.must(200, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", "")
		future := w.s.Revision()
		open := w.watch(configMaps + "?watch=true&resourceVersion=" + fmt.Sprint(future))

		w.s.Restore(backup)
		if err := open.end(); err != io.EOF {
			t.Errorf("the open watch: %v, want its end", err)
		}
		if now := w.s.Revision(); now != at {
			t.Errorf("revision %d, want %d", now, at)
		}
		if o := w.must(200, "GET", configMaps+"/kept", ""); o.raw != kept.raw {
			t.Errorf("%s, want %s", o.raw, kept.raw)
		}
		if names := itemNames(w.must(200, "GET", configMaps, "")); names != "kept" {
			t.Errorf("objects %s", names)
		}
		synctest.Wait()
		w.must(201, "POST", widgetPath, widget("a", `{"image":"x"}`))

		// A watch from the lost future is silent, bookmarks too, until that is the past again.
		silent := w.watch(configMaps + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + fmt.Sprint(future))
		defer silent.close()
		time.Sleep(5 * time.Minute)
		i := 0
		for ; w.s.Revision() <= future; i++ {
			w.create(configMaps, fmt.Sprint("new", i))
		}
		w.create(configMaps, "heard")
		for f := silent.next(); f.at("metadata.name") != "heard"; f = silent.next() {
			if name := fmt.Sprint(f.at("metadata.name")); f.Type != "ADDED" || name != fmt.Sprint("new", i-1) {
				t.Errorf("%s %s from a watch of the lost future", f.Type, name)
			}
		}
		w.must(410, "GET", configMaps+"?resourceVersionMatch=Exact&resourceVersion="+fmt.Sprint(at-1), "")
	})
}

// Rules: FI-09
func TestAStormOfBookmarksNeedsNoChange(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		last := w.create(configMaps, "a")
		w.s.Inject(Fault{Verb: "watch", Watch: WatchFault{Bookmarks: BookmarksStorm}})
		watch := w.watch(configMaps + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + last)
		defer watch.close()
		for range 100 {
			if f := watch.next(); f.Type != "BOOKMARK" || f.at("metadata.resourceVersion") != last {
				t.Fatal(f)
			}
		}
	})
}

// Rules: FI-09
func TestBookmarksCanHaveEachFault(t *testing.T) {
	for mode, want := range map[BookmarkMode]string{
		faults.BookmarksAsUsual: "ADDED, mark ConfigMap, 5m0s, 9m57s",
		BookmarksNever:          "ADDED, end",
		BookmarksAtEnd:          "ADDED, mark ConfigMap, 9m57s",
		BookmarksOfAnother:      "ADDED, mark Bookmark, 5m0s, 9m57s",
		BookmarksUnmarked:       "ADDED, bookmark ConfigMap, 5m0s, 9m57s",
		BookmarksBehind:         "ADDED, mark ConfigMap behind, 5m0s, 9m57s",
	} {
		withServer(t, Options{BookmarkInterval: 5 * time.Minute}, func(w *testServer) {
			w.create(configMaps, "a")
			w.s.Inject(Fault{Verb: "watch", Watch: WatchFault{Bookmarks: mode}})
			watch := w.watch(configMaps +
				"?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" +
				"&timeoutSeconds=599")
			defer watch.close()
			began := time.Now()
			got := []string{watch.next().Type}
			time.Sleep(time.Second)
			// so that later bookmarks have something to say
			w.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"elsewhere"}}`)
			for {
				var f frame
				if err := watch.dec.Decode(&f); err != nil {
					break
				}
				if at := time.Since(began).Round(time.Second); at > time.Second {
					got = append(got, at.String())
					continue
				}
				text := "bookmark"
				if obj.String(f.Object, "metadata", "annotations", "k8s.io/initial-events-end") == "true" {
					text = "mark"
				}
				if text += " " + fmt.Sprint(f.at("kind")); f.at("metadata.resourceVersion") == "1" {
					text += " behind"
				}
				got = append(got, text)
			}
			if len(got) == 1 {
				got = append(got, "end")
			}
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("mode %d: %s, want %s", mode, text, want)
			}
		})
	}
}
