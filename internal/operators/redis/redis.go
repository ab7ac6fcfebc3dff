// Package redis is the operator of the Redis custom resource: a number of pods NAME-0, NAME-1 ..., each a Redis
// server of its own on the declared port, behind a headless Service NAME.
//
// Its job is to say what should exist (desired.go) and what was seen (observe.go, fault.go), both pure functions.
// Package apply creates, rolls, replaces and removes the pods, and package operator is the Reconcile around that.
// There is no Deployment or StatefulSet in between. The pods get no storage and are not connected in any way:
// without volumes they are a cache.
//
// Place on the event path: it is called by (*operator.reconciler).Reconcile, on the controller's workers. It
// starts no goroutine.
package redis

import (
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// app is the name of the application in the labels of the children.
const app = "redis"

// What this operator watches and writes.
var (
	resource = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	pods     = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	services = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
)

var definition = operator.Definition[*Redis, Status]{
	Name:     app,
	Resource: resource, ShortNames: []string{"rds"},
	Children: []operator.Kind{
		operator.Owns[*apply.Live[struct{}]](services),
		operator.Replaces(pods, apply.ReplaceOptions[*pod]{New: func() *pod { return new(pod) },
			Revision: RevisionLabel, Selector: operator.SelectorKeys, Ready: (*pod).Ready, Ended: (*pod).Ended}),
	},
	Desired:   desired,
	Finalizer: Finalizer,
	Pods:      true,
	Example: `apiVersion: skiff.dev/v1alpha1
kind: Redis
metadata: {name: cache}
spec: {port: 6379, num: 3}
`,
	Observe: func(rd *Redis, seen operator.Seen, _ health.Problem) (Status, conditions.Set) {
		s, progress := observe(rd, seen, time.Now())
		return s, progress.Set()
	},
	Known: func(rd *Redis) map[kube.Key]string {
		known := make(map[kube.Key]string, len(rd.Status.Members))
		for _, m := range rd.Status.Members {
			known[kube.Key{Namespace: rd.Namespace, Name: m.Name}] = m.UID
		}
		return known
	},
}

// Rights are all that the operator needs.
var Rights = definition.Rights()

// Marks returns the texts in the children of a custom resource that are computed from it.
var Marks = definition.Marks

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; the caller runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	return operator.New(s, recorder, definition)
}

// Finalizer keeps a deleted Redis until its pods have been removed, in order.
const Finalizer = "skiff.dev/pods"

// RevisionLabel on a pod holds the hash of the template that it was made from.
const RevisionLabel = "skiff.dev/revision"

// pod is a pod as it is cached.
type pod = operator.Pod

// Redis is the custom resource. crds/redis.yaml says what its fields mean.
type Redis = operator.Object[Spec, Status]

// Spec is what the user wants. What is handed on to the pods as it is stays raw.
type Spec struct {
	Port            int32    `json:"port"`
	Num             *int32   `json:"num"`   // nil is not 0: it would delete all pods
	Image           *string  `json:"image"` // nil: defaultImage
	MinReadySeconds int32    `json:"minReadySeconds"`
	Resources       kube.Raw `json:"resources"`
	Config          kube.Raw `json:"config"`
	Template        kube.Raw `json:"template"`
}

// Status is what was seen.
type Status struct {
	operator.Common
	Ready           string   `json:"ready"` // of the pods, for a column of kubectl: "1/3"
	Replicas        int32    `json:"replicas"`
	ReadyReplicas   int32    `json:"readyReplicas"`
	UpdatedReplicas int32    `json:"updatedReplicas"`
	Selector        string   `json:"selector"`
	Members         []Member `json:"members"`
}

// Member is one pod, in the order of the ordinals.
type Member struct {
	Name     string `json:"name"`
	UID      string `json:"uid"`
	IP       string `json:"ip"` // "" before the pod has one
	Ready    bool   `json:"ready"`
	Revision string `json:"revision"` // of the template that it was made from
}
