package apiserver

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/forms"
)

// BenchmarkPatchStatusOfMany changes large pods in turn, more of them than the store keeps decoded.
func BenchmarkPatchStatusOfMany(b *testing.B) {
	const many = 1000
	s := New(Options{HistoryEvents: 100})
	defer s.Close()
	for i := range many {
		sendTo(b, s, "POST", pods, bigPod(i), "application/json")
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		sendTo(b, s, http.MethodPatch, fmt.Sprintf("%s/web-%d/status", pods, i%many),
			fmt.Sprintf(`{"status":{"phase":"Running","podIP":"10.0.0.%d","message":"%d"}}`, i%256, i),
			string(kube.StrategicMergePatch))
	}
}

// BenchmarkResidentMemory reports the memory of a process with 10,000 pods that were created, became Running and were
// listed five times. An object in an answer is not read again.
func BenchmarkResidentMemory(b *testing.B) {
	const many = 10_000
	for range b.N {
		s := New(Options{})
		for i := range many {
			sendTo(b, s, "POST", pods, bigPod(i), "application/json")
			sendTo(b, s, http.MethodPatch, fmt.Sprintf("%s/web-%d/status", pods, i),
				`{"status":{"phase":"Running","podIP":"10.0.0.1"}}`, string(kube.StrategicMergePatch))
		}
		size := 0
		for range 5 {
			w := &countingWriter{header: http.Header{}}
			s.ServeHTTP(w, httptest.NewRequest("GET", pods, nil))
			size = w.bytes
		}
		b.ReportMetric(float64(size)/1e6, "json-MB")
		b.ReportMetric(residentMemory(b), "peak-rss-MB")
		s.Close()
	}
}

// BenchmarkListPods is a list of 10,000 pods, which only answers have read.
func BenchmarkListPods(b *testing.B) {
	const many = 10_000
	s := New(Options{HistoryEvents: 100})
	defer s.Close()
	for i := range many {
		sendTo(b, s, "POST", pods, bigPod(i), "application/json")
		sendTo(b, s, http.MethodPatch, fmt.Sprintf("%s/web-%d/status", pods, i),
			`{"status":{"phase":"Running","podIP":"10.0.0.1"}}`, string(kube.StrategicMergePatch))
	}
	s.ForgetRequests()
	for _, accept := range []string{"application/json", forms.ProtobufType} {
		b.Run(accept, func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for range b.N {
				w := &countingWriter{header: http.Header{}}
				r := httptest.NewRequest("GET", pods, nil)
				r.Header.Set("Accept", accept)
				s.ServeHTTP(w, r)
				size = w.bytes
			}
			b.ReportMetric(float64(size)/1e6, "MB")
			b.ReportMetric(liveHeap()/1e6, "heap-MB")
			b.ReportMetric(residentMemory(b), "peak-rss-MB")
		})
	}
}

// countingWriter counts the bytes of an answer.
type countingWriter struct {
	header http.Header
	bytes  int
}

func (w *countingWriter) Header() http.Header { return w.header }

func (w *countingWriter) WriteHeader(int) {}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.bytes += len(b)
	return len(b), nil
}

// residentMemory returns the largest resident memory that this process has had, in MB.
func residentMemory(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("there is no /proc here")
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kib float64
			if _, err := fmt.Sscan(text, &kib); err != nil {
				b.Fatal(err)
			}
			return kib * 1024 / 1e6
		}
	}
	b.Fatal("no VmHWM in /proc/self/status")
	return 0
}

// sendTo sends a request that has to succeed.
func sendTo(b *testing.B, s *Server, method, path, body, contentType string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code/100 != 2 {
		b.Fatal(w.Body)
	}
}

// BenchmarkPatchStatus is what the server does most in tests and in skiff-dev: the status of a pod changes.
func BenchmarkPatchStatus(b *testing.B) {
	s := New(Options{HistoryEvents: 100})
	defer s.Close()
	sendTo(b, s, "POST", pods, podBody("p"), "application/json")
	b.ReportAllocs()
	for i := range b.N {
		ready := map[bool]string{true: "True", false: "False"}[i%2 == 0]
		sendTo(b, s, http.MethodPatch, pods+"/p/status",
			fmt.Sprintf(`{"status":{"phase":"Running","podIP":"10.0.0.1",
				"conditions":[{"type":"Ready","status":%q,"reason":"r%d"}],
				"containerStatuses":[{"name":"c","image":"i","imageID":"","ready":true,"restartCount":0,
				"state":{"running":{}}}]}}`, ready, i), string(kube.StrategicMergePatch))
	}
}

// BenchmarkNew is the start of a server: its kinds, and the objects of a new cluster.
func BenchmarkNew(b *testing.B) {
	for range b.N {
		New(Options{}).Close()
	}
}

// BenchmarkWatchers is one change that a thousand watches get, over pipes.
func BenchmarkWatchers(b *testing.B) {
	const watchers = 1000
	s := New(Options{})
	defer s.Close()
	p := s.ListenPipe()
	defer p.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: p.Dial}}
	defer client.CloseIdleConnections()
	sendTo(b, s, "POST", configMaps, configMap("a"), "application/json")
	before := liveHeap()
	seen := make(chan error, watchers)
	for range watchers {
		resp, err := client.Get(PipeURL + configMaps + "?watch=1&resourceVersion=" + fmt.Sprint(s.Revision()))
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		go func() {
			for lines := bufio.NewReader(resp.Body); ; {
				if _, err := lines.ReadSlice('\n'); err != nil {
					return // the end of the benchmark
				}
				seen <- nil
			}
		}()
	}
	perWatch := float64(liveHeap()-before) / watchers
	b.ResetTimer()
	for i := range b.N {
		sendTo(b, s, http.MethodPatch, configMaps+"/a", fmt.Sprintf(`{"data":{"n":"%d"}}`, i), string(kube.MergePatch))
		for range watchers {
			<-seen
		}
	}
	b.ReportMetric(perWatch, "heap-B/watch+client")
}

// BenchmarkSmallWrites is small patches of different objects, several at the same time, over connections of their own.
func BenchmarkSmallWrites(b *testing.B) {
	s := New(Options{})
	defer s.Close()
	web := httptest.NewServer(s)
	defer web.Close()
	var objects atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprint("c", objects.Add(1))
		sendTo(b, s, "POST", configMaps, configMap(name), "application/json")
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for i := 0; pb.Next(); i++ {
			req, err := http.NewRequest(http.MethodPatch, web.URL+configMaps+"/"+name,
				strings.NewReader(fmt.Sprintf(`{"data":{"n":"%d"}}`, i)))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Content-Type", string(kube.MergePatch))
			resp, err := client.Do(req)
			if err != nil || resp.StatusCode != http.StatusOK {
				b.Error(resp, err)
				return
			}
			io.Copy(io.Discard, resp.Body) // a part would show as a new connection
			resp.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}
