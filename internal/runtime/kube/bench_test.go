package kube

import (
	"bytes"
	"context"
	v1 "encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallPod is what a controller that follows pods declares.
type smallPod struct {
	Meta `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		PodIP      string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// v1Pod is the same for encoding/json, which needs maps and pointers.
type v1Pod struct {
	Metadata struct {
		Name, Namespace, UID, ResourceVersion string
		Labels                                map[string]string
		OwnerReferences                       []struct{ APIVersion, Kind, Name, UID string }
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase, PodIP string
		Conditions   []struct{ Type, Status string }
	}
}

// realisticPod is a pod as a busy cluster has them: about 9 KB, a third of it managedFields, two containers with
// environment and probes, volumes, tolerations and a full status.
func realisticPod(i int) string {
	app := i % 50
	var env, fields strings.Builder
	for e := range 20 {
		fmt.Fprintf(&env, `{"name":"SETTING_%d","value":"value-of-setting-%d-for-app-%d"},`, e, e, app)
		fmt.Fprintf(&fields, `"k:{\"name\":\"SETTING_%d\"}":{".":{},"f:name":{},"f:value":{}},`, e)
	}
	container := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"image":"registry.local/team/%s-%d:v1.2.3","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[%s{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"readinessProbe":{"httpGet":{"path":"/readyz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`,
			name, name, app, env.String())
	}
	condition := func(t string) string {
		return fmt.Sprintf(`{"type":%q,"status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T10:00:00Z"}`, t)
	}
	status := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"state":{"running":{"startedAt":"2026-11-01T10:00:01Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"registry.local/team/%s-%d:v1.2.3","imageID":"registry.local/team/%s@sha256:%064x","containerID":"containerd://%064x","started":true}`,
			name, name, app, name, app, i)
	}
	return fmt.Sprintf(`{"metadata":{"name":"app-%d-7d4b9c6f5d-%05d","generateName":"app-%d-7d4b9c6f5d-","namespace":"team-%02d","uid":"%08x-1111-4222-8333-444455556666","resourceVersion":"%d","creationTimestamp":"2026-11-01T10:00:00Z","labels":{"app":"app-%d","pod-template-hash":"7d4b9c6f5d","team":"team-%02d","tier":"backend","version":"v1.2.3"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"8080","checksum/config":"%064x"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-%d-7d4b9c6f5d","uid":"%08x-aaaa-4bbb-8ccc-ddddeeeeffff","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-11-01T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{"f:env":{%s".":{}},"f:image":{}}}}}}]},"spec":{"volumes":[{"name":"kube-api-access-abcde","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}],"defaultMode":420}}],"containers":[%s,%s],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-%d","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[%s,%s,%s,%s],"hostIP":"10.0.0.%d","podIP":"10.%d.%d.%d","podIPs":[{"ip":"10.1.2.3"}],"startTime":"2026-11-01T10:00:00Z","containerStatuses":[%s,%s],"qosClass":"Burstable"}}`,
		app, i, app, i%20, i, 100000+i, app, i%20, app, app, app, fields.String(), container("main"),
		container("proxy"), i%200, condition("Initialized"), condition("Ready"), condition("ContainersReady"),
		condition("PodScheduled"), i%250, i>>16, i>>8&255, i&255, status("main"), status("proxy"))
}

// realisticList is a list of n pods as an API server sends it.
func realisticList(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"200000"},"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(realisticPod(i))
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

// BenchmarkDecodePods reads a list of 10,000 pods of 9 KB into a struct of some ten fields, in each encoding. B/op is
// what one list allocates in all.
func BenchmarkDecodePods(b *testing.B) {
	const n = 10_000
	run := func(name string, body []byte, decode func(r io.Reader, all *ListResult[*smallPod]) (listMeta, error)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var all ListResult[*smallPod]
				if _, err := decode(bytes.NewReader(body), &all); err != nil || len(all.Items) != n {
					b.Fatalf("decoded %d pods: %v", len(all.Items), err)
				}
			}
			b.ReportMetric(float64(len(body))/n, "B/pod-on-the-wire")
		})
	}
	run("skiff", realisticList(n), func(r io.Reader, all *ListResult[*smallPod]) (listMeta, error) {
		return decodePage(newScanner(r), "Pod", all)
	})
	var objects []string
	for i := range n {
		objects = append(objects, realisticPod(i))
	}
	protobuf := []byte(protoListOf(b, pods, "200000", objects...))
	run("skiff-protobuf", protobuf, func(r io.Reader, all *ListResult[*smallPod]) (listMeta, error) {
		return decodeProtoPage(newProtoReader(r, protoPlanOf[*smallPod](pods), expected{}), "Pod", all)
	})
}

// BenchmarkListOverTLS reads the same list from a server, in each encoding, over a connection of its own and over
// HTTP/2; cpu-ms/op includes the server's part.
func BenchmarkListOverTLS(b *testing.B) {
	var objects []string
	for i := range 10_000 {
		objects = append(objects, realisticPod(i))
	}
	bodies := map[string][]byte{"application/json": realisticList(len(objects)),
		"application/vnd.kubernetes.protobuf": []byte(protoListOf(b, pods, "200000", objects...))}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mediaType, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
		w.Header().Set("Content-Type", mediaType)
		_, _ = w.Write(bodies[mediaType])
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for _, onlyJSON := range []bool{false, true} {
		for _, own := range []bool{true, false} {
			b.Run(fmt.Sprintf("json=%v/own=%v", onlyJSON, own), func(b *testing.B) {
				c, err := New(Config{Server: srv.URL, OnlyJSON: onlyJSON,
					TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig})
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				if !own {
					c.open = nil
				}
				b.ReportAllocs()
				began := cpuTime()
				for range b.N {
					all, err := List[*smallPod](context.Background(), c, Query{Resource: pods}, ListOptions{Limit: -1})
					if err != nil || len(all.Items) != len(objects) {
						b.Fatalf("listed %d pods, %v", len(all.Items), err)
					}
				}
				b.ReportMetric(float64((cpuTime()-began).Milliseconds())/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// BenchmarkCreateOverTLS creates an object from ten goroutines, over connections of their own and over HTTP/2;
// cpu-us/op includes the server's part.
func BenchmarkCreateOverTLS(b *testing.B) {
	answer := []byte(item("a", "5"))
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are closed
	srv.StartTLS()
	defer srv.Close()
	body := Raw(item("a", ""))
	for _, onlyHTTP2 := range []bool{false, true} {
		b.Run(fmt.Sprintf("http2=%v", onlyHTTP2), func(b *testing.B) {
			c, err := New(Config{Server: srv.URL, TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			c.onlyHTTP2.Store(onlyHTTP2)
			b.ReportAllocs()
			b.SetParallelism(5)
			began := cpuTime()
			b.RunParallel(func(next *testing.PB) {
				for next.Next() {
					err := c.Create(context.Background(), pods, "default", body, nil, WriteOptions{Name: "a"})
					if err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64((cpuTime()-began).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// cpuTime returns the CPU time that this process has taken.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWatchEvents reads pod events from memory, as fast as they decode.
func BenchmarkWatchEvents(b *testing.B) {
	const n = 1000
	var inJSON, inProtobuf bytes.Buffer
	for i := range n {
		inJSON.WriteString(frame("MODIFIED", realisticPod(i)))
		inProtobuf.WriteString(protoFrame("MODIFIED", protoOf(b, pods, realisticPod(i))))
	}
	run := func(name string, in []byte, open func(io.Reader) func() (Event[*smallPod], error)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)) / n)
			b.ReportAllocs()
			next := open(bytes.NewReader(nil))
			for b.Loop() {
				ev, err := next()
				if err == io.EOF {
					next = open(bytes.NewReader(in))
					ev, err = next()
				}
				if err != nil || ev.Object == nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("json", inJSON.Bytes(), func(r io.Reader) func() (Event[*smallPod], error) {
		s := newScanner(r)
		return func() (Event[*smallPod], error) { return nextEvent[*smallPod](s) }
	})
	run("protobuf", inProtobuf.Bytes(), func(r io.Reader) func() (Event[*smallPod], error) {
		p := newProtoReader(r, protoPlanOf[*smallPod](pods), expected{})
		return func() (Event[*smallPod], error) { return nextProtoEvent[*smallPod](p, nil) }
	})
}

// BenchmarkDecodeAnswer decodes one object whole, as the answer to a write: as it is done, and by encoding/json.
func BenchmarkDecodeAnswer(b *testing.B) {
	body := []byte(realisticPod(1))
	run := func(name string, decode func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("scanner", func() error { return Unmarshal(body, new(smallPod)) })
	run("encoding-json", func() error { return v1.Unmarshal(body, new(v1Pod)) })
}
