// Command peer is a controller of skiff's WebServers on controller-runtime, as its users write one: typed objects,
// caches of its own children alone, without managedFields. It makes the Deployment and the Service, an Event and a
// status with the condition Ready, and makes a child that is deleted again. It does less than skiff: one condition
// instead of five, no adoption, no merge with the fields of others, and a Service comes back with another node port.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// managedBy has the label that tells its children from those of others.
const managedBy, name = "app.kubernetes.io/managed-by", "peer"

func main() {
	namespace := flag.String("namespace", "default", "namespace to work in")
	workers := flag.Int("workers", 10, "how many WebServers to work on at a time")
	probes := flag.String("probes", "127.0.0.1:8081", "address that answers /readyz once all is listed")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), *namespace, *workers, *probes); err != nil {
		ctrl.Log.Error(err, "peer ended")
		os.Exit(1)
	}
}

// run works until ctx is done.
func run(ctx context.Context, namespace string, workers int, probes string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), addWebServer(scheme)); err != nil {
		return fmt.Errorf("make scheme: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	own := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{managedBy: name})}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: probes,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			ByObject:          map[client.Object]cache.ByObject{&appsv1.Deployment{}: own, &corev1.Service{}: own},
			DefaultTransform:  cache.TransformStripManagedFields(),
		},
	})
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	r := &reconciler{m.GetClient(), m.GetEventRecorder(name)}
	if err := ctrl.NewControllerManagedBy(m).For(&WebServer{}).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(r); err != nil {
		return fmt.Errorf("make controller: %w", err)
	}
	if err := readyWhenSynced(m, &WebServer{}, &appsv1.Deployment{}, &corev1.Service{}); err != nil {
		return err
	}
	return m.Start(ctx)
}

// readyWhenSynced has /readyz answer once the caches have the objects that there were.
func readyWhenSynced(m manager.Manager, kinds ...client.Object) error {
	var synced atomic.Bool
	wait := manager.RunnableFunc(func(ctx context.Context) error {
		for _, kind := range kinds {
			if _, err := m.GetCache().GetInformer(ctx, kind); err != nil { // returns once it has synced
				return err
			}
		}
		synced.Store(true)
		return nil
	})
	return errors.Join(m.Add(wait), m.AddReadyzCheck("caches", func(*http.Request) error {
		if !synced.Load() {
			return errors.New("not synced")
		}
		return nil
	}))
}

// reconciler brings WebServers about.
type reconciler struct {
	client.Client
	recorder events.EventRecorder
}

// Reconcile makes the children that are missing, changes those that differ, and writes the status.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w WebServer
	if err := r.Get(ctx, req.NamespacedName, &w); err != nil || !w.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment, madeDeployment, err := r.deployment(ctx, &w)
	if err != nil {
		return ctrl.Result{}, err
	}
	service, madeService, err := r.service(ctx, &w)
	if err != nil {
		return ctrl.Result{}, err
	}
	if madeDeployment || madeService {
		r.recorder.Eventf(&w, service, corev1.EventTypeNormal, "Create", "Reconcile",
			"created Deployment %s, Service %s", deployment.Name, service.Name)
	}
	return ctrl.Result{}, r.report(ctx, &w, deployment, service)
}

func (w *WebServer) childMeta(childName string) metav1.ObjectMeta {
	all := map[string]string{managedBy: name}
	for key, value := range w.selector() {
		all[key] = value
	}
	return metav1.ObjectMeta{Namespace: w.Namespace, Name: childName, Labels: all}
}

func (w *WebServer) selector() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "webserver", "app.kubernetes.io/instance": w.Name}
}

func (r *reconciler) deployment(ctx context.Context, w *WebServer) (d *appsv1.Deployment, made bool, err error) {
	d = &appsv1.Deployment{}
	err = r.Get(ctx, client.ObjectKeyFromObject(w), d)
	if apierrors.IsNotFound(err) {
		d = &appsv1.Deployment{ObjectMeta: w.childMeta(w.Name), Spec: appsv1.DeploymentSpec{
			Replicas: w.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: w.selector()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: w.selector()},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "webserver", Image: w.Spec.Image,
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}},
			},
		}}
		return d, true, r.create(ctx, w, d)
	}
	if err != nil {
		return nil, false, err
	}
	container := &d.Spec.Template.Spec.Containers[0]
	if container.Image != w.Spec.Image || w.Spec.Replicas != nil && *w.Spec.Replicas != *d.Spec.Replicas {
		d = d.DeepCopy()
		d.Spec.Template.Spec.Containers[0].Image, d.Spec.Replicas = w.Spec.Image, w.Spec.Replicas
		err = r.Update(ctx, d)
	}
	return d, false, err
}

func (r *reconciler) service(ctx context.Context, w *WebServer) (s *corev1.Service, made bool, err error) {
	key := client.ObjectKey{Namespace: w.Namespace, Name: w.Name + "-service"}
	s = &corev1.Service{}
	if err = r.Get(ctx, key, s); !apierrors.IsNotFound(err) {
		return s, false, err
	}
	s = &corev1.Service{ObjectMeta: w.childMeta(key.Name), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort,
		Selector: w.selector(), Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	return s, true, r.create(ctx, w, s)
}

// create makes a child. One that the cache does not show yet is no error.
func (r *reconciler) create(ctx context.Context, w *WebServer, child client.Object) error {
	if err := ctrl.SetControllerReference(w, child, r.Scheme()); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(r.Create(ctx, child))
}

// report writes the status where it differs.
func (r *reconciler) report(ctx context.Context, w *WebServer, d *appsv1.Deployment, s *corev1.Service) error {
	before := w.DeepCopyObject().(*WebServer)
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "RollingOut",
		ObservedGeneration: w.Generation, Message: fmt.Sprintf("%d of %d pods are available",
			d.Status.AvailableReplicas, want)}
	if d.Status.AvailableReplicas >= want {
		ready.Status, ready.Reason = metav1.ConditionTrue, "Available"
	}
	changed := meta.SetStatusCondition(&w.Status.Conditions, ready)
	port := w.Status.NodePort
	if len(s.Spec.Ports) > 0 && s.Spec.Ports[0].NodePort != 0 {
		port = s.Spec.Ports[0].NodePort
	}
	if !changed && w.Status.ObservedGeneration == w.Generation && w.Status.NodePort == port &&
		w.Status.ReadyReplicas == d.Status.ReadyReplicas {
		return nil
	}
	w.Status.ObservedGeneration, w.Status.NodePort = w.Generation, port
	w.Status.ReadyReplicas = d.Status.ReadyReplicas
	return r.Status().Patch(ctx, w, client.MergeFrom(before))
}
