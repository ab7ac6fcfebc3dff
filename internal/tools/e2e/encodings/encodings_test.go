// Package encodings compares what the product reads of the same object in JSON and in protobuf, both written by the
// types of k8s.io/api. It is a package of its own so that its fuzz target is not slowed down by all that package e2e
// imports.
package encodings

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"skiff/internal/runtime/kube"
)

// The structs below declare all that the product can read in protobuf of these kinds.

type (
	timed    = time.Time
	selector struct {
		MatchLabels      kube.Labels `json:"matchLabels"`
		MatchExpressions []struct {
			Key      string   `json:"key"`
			Operator string   `json:"operator"`
			Values   []string `json:"values"`
		} `json:"matchExpressions"`
	}
	podSpec struct {
		RestartPolicy string            `json:"restartPolicy"`
		NodeSelector  map[string]string `json:"nodeSelector"`
		Account       string            `json:"serviceAccountName"`
		NodeName      string            `json:"nodeName"`
		Priority      *int32            `json:"priority"`
	}
	containerState struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Running *struct {
			StartedAt timed `json:"startedAt"`
		} `json:"running"`
		Terminated *struct {
			ExitCode   int32  `json:"exitCode"`
			Signal     int    `json:"signal"`
			Reason     string `json:"reason"`
			Message    string `json:"message"`
			StartedAt  timed  `json:"startedAt"`
			FinishedAt timed  `json:"finishedAt"`
			Container  string `json:"containerID"`
		} `json:"terminated"`
	}
	containerStatus struct {
		Name         string         `json:"name"`
		State        containerState `json:"state"`
		LastState    containerState `json:"lastState"`
		Ready        bool           `json:"ready"`
		RestartCount int32          `json:"restartCount"`
		Image        string         `json:"image"`
		ImageID      string         `json:"imageID"`
		ContainerID  string         `json:"containerID"`
		Started      *bool          `json:"started"`
	}
	condition struct {
		Type    string `json:"type"`
		Status  string `json:"status"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
		Changed timed  `json:"lastTransitionTime"`
	}
	bothPod struct {
		kube.MetaAnnotated `json:"metadata"`
		Spec               podSpec `json:"spec"`
		Status             struct {
			Phase      string            `json:"phase"`
			Conditions []condition       `json:"conditions"`
			Message    string            `json:"message"`
			Reason     string            `json:"reason"`
			HostIP     string            `json:"hostIP"`
			PodIP      string            `json:"podIP"`
			Start      *timed            `json:"startTime"`
			Containers []containerStatus `json:"containerStatuses"`
			Init       []containerStatus `json:"initContainerStatuses"`
			Ephemeral  []containerStatus `json:"ephemeralContainerStatuses"`
			QOS        string            `json:"qosClass"`
		} `json:"status"`
	}
	bothService struct {
		kube.MetaAnnotated `json:"metadata"`
		Spec               struct {
			Ports []struct {
				Name     string `json:"name"`
				Protocol string `json:"protocol"`
				Port     int32  `json:"port"`
				NodePort int32  `json:"nodePort"`
			} `json:"ports"`
			Selector   kube.Labels `json:"selector"`
			ClusterIP  string      `json:"clusterIP"`
			Type       string      `json:"type"`
			Affinity   string      `json:"sessionAffinity"`
			External   string      `json:"externalName"`
			ClusterIPs []string    `json:"clusterIPs"`
		} `json:"spec"`
	}
	bothDeployment struct {
		kube.MetaAnnotated `json:"metadata"`
		Spec               struct {
			Replicas *int32    `json:"replicas"`
			Selector *selector `json:"selector"`
			Template struct {
				kube.MetaAnnotated `json:"metadata"`
				Spec               podSpec `json:"spec"`
			} `json:"template"`
			Paused bool `json:"paused"`
		} `json:"spec"`
		Status struct {
			Generation  int64       `json:"observedGeneration"`
			Replicas    int32       `json:"replicas"`
			Updated     int32       `json:"updatedReplicas"`
			Available   int32       `json:"availableReplicas"`
			Unavailable int32       `json:"unavailableReplicas"`
			Ready       int32       `json:"readyReplicas"`
			Conditions  []condition `json:"conditions"`
		} `json:"status"`
	}
	bothLease struct {
		kube.MetaAnnotated `json:"metadata"`
		Spec               struct {
			Holder      *string `json:"holderIdentity"`
			Seconds     *int32  `json:"leaseDurationSeconds"`
			Acquired    *timed  `json:"acquireTime"`
			Renewed     *timed  `json:"renewTime"`
			Transitions *int32  `json:"leaseTransitions"`
		} `json:"spec"`
	}
)

// exchange is a client, and a server of it over net.Pipe that answers with what was set last.
type exchange struct {
	client            *kube.Client
	mu                sync.Mutex // guards contentType and body
	contentType, body string
}

func newExchange(f testing.TB) *exchange {
	e := &exchange{}
	listener := pipes{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: e}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(listener) })
	dial := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		listener.conns <- theirs
		return ours, nil
	}
	client, err := kube.New(kube.Config{Server: "http://pipe", DialContext: dial})
	if err != nil {
		f.Fatal(err)
	}
	e.client = client
	f.Cleanup(func() { client.Close(); close(listener.done); _ = srv.Close(); serving.Wait() })
	return e
}

func (e *exchange) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Content-Type", e.contentType)
	_, _ = w.Write([]byte(e.body))
}

func (e *exchange) answer(contentType, body string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.contentType, e.body = contentType, body
}

type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// listBoth lists object in JSON and in protobuf and returns what the product makes of each.
func listBoth[T kube.Object](t *testing.T, e *exchange, r kube.Resource, object, list interface {
	Marshal() ([]byte, error)
}) (fromJSON, fromProtobuf []T) {
	text, err := json.Marshal(object)
	if err != nil {
		t.Skip(err) // a time that JSON does not have
	}
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	body, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: r.APIVersion(), Kind: r.Kind + "List"},
		Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read := func(contentType, body string) []T {
		e.answer(contentType, body)
		got, err := kube.List[T](t.Context(), e.client, kube.Query{Resource: r}, kube.ListOptions{})
		if err != nil || len(got.Bad) > 0 {
			t.Fatalf("%s: %v, %v", contentType, err, got.Bad)
		}
		return got.Items
	}
	return read("application/json", fmt.Sprintf(`{"kind":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`,
			r.Kind+"List", text)),
		read("application/vnd.kubernetes.protobuf", "k8s\x00"+string(body))
}

// FuzzBothEncodings fills objects with anything, encodes them as an API server does, in JSON and in protobuf, and
// compares what the product reads.
func FuzzBothEncodings(f *testing.F) {
	e := newExchange(f)
	f.Add([]byte{})
	for i := range 20 {
		seed := make([]byte, 200*i)
		for j := range seed {
			seed[j] = byte(i*j + j*j/7)
		}
		f.Add(seed)
	}
	meta := metav1.ListMeta{ResourceVersion: "1"}
	f.Fuzz(func(t *testing.T, data []byte) {
		fill := randfill.NewFromGoFuzz(data).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
			func(at *metav1.Time, c randfill.Continue) {
				if at.Time = (time.Time{}); c.Bool() {
					at.Time = time.Unix(c.Int63n(4e9), 0)
				}
			},
			func(*metav1.TypeMeta, randfill.Continue) {}, // it is in the envelope
			func(at *metav1.MicroTime, c randfill.Continue) {
				at.Time = time.Unix(c.Int63n(4e9), c.Int63n(1e6)*1000)
			},
			func(fields *metav1.FieldsV1, _ randfill.Continue) { fields.SetRawString(`{"f:spec":{}}`) },
		)
		named := func(m *metav1.ObjectMeta) { m.Name, m.Namespace = "a", "default" }
		var pod corev1.Pod
		fill.Fill(&pod)
		named(&pod.ObjectMeta)
		equal(t, func() (a, b []*bothPod) {
			return listBoth[*bothPod](t, e, kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}, &pod,
				&corev1.PodList{ListMeta: meta, Items: []corev1.Pod{pod}})
		})
		var service corev1.Service
		fill.Fill(&service)
		named(&service.ObjectMeta)
		equal(t, func() (a, b []*bothService) {
			return listBoth[*bothService](t, e, kube.Resource{Version: "v1", Plural: "services", Kind: "Service"},
				&service, &corev1.ServiceList{ListMeta: meta, Items: []corev1.Service{service}})
		})
		var deployment appsv1.Deployment
		fill.Fill(&deployment)
		named(&deployment.ObjectMeta)
		equal(t, func() (a, b []*bothDeployment) {
			return listBoth[*bothDeployment](t, e, kube.Resource{Group: "apps", Version: "v1", Plural: "deployments",
				Kind: "Deployment"}, &deployment, &appsv1.DeploymentList{ListMeta: meta,
				Items: []appsv1.Deployment{deployment}})
		})
		var lease coordinationv1.Lease
		fill.Fill(&lease)
		named(&lease.ObjectMeta)
		equal(t, func() (a, b []*bothLease) {
			return listBoth[*bothLease](t, e, kube.Resource{Group: "coordination.k8s.io", Version: "v1",
				Plural: "leases", Kind: "Lease"}, &lease, &coordinationv1.LeaseList{ListMeta: meta,
				Items: []coordinationv1.Lease{lease}})
		})
	})
}

func equal[T any](t *testing.T, read func() (fromJSON, fromProtobuf []*T)) {
	t.Helper()
	a, b := read()
	if len(a) != 1 || len(b) != 1 || !reflect.DeepEqual(a[0], b[0]) {
		t.Errorf("JSON gives %+v\nprotobuf  %+v", *a[0], *b[0])
	}
}
