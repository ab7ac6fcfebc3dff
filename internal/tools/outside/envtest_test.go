package outside

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// A test suite as kubebuilder writes it, unchanged but for where its programs come from.
func TestEnvtestRunsOnSkiff(t *testing.T) {
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets(t),
		CRDDirectoryPaths:     []string{filepath.Join(repository, "crds")},
		ErrorIfCRDPathMissing: true,
	}
	env.ControlPlane.GetAPIServer().Configure().Append("simulate", "gc,namespaces")
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			env.Stop() // the test has failed already
		}
	})
	certDir := env.ControlPlane.APIServer.CertDir

	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	pages := schema.GroupVersionKind{Group: "skiff.dev", Version: "v1alpha1", Kind: "WebServer"}
	page := &unstructured.Unstructured{}
	page.SetGroupVersionKind(pages)
	// The reconcile gives each WebServer a ConfigMap that it owns.
	reconcile := func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		owner := page.DeepCopy()
		if err := mgr.GetClient().Get(ctx, r.NamespacedName, owner); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, pages)}}}
		return ctrl.Result{}, client.IgnoreAlreadyExists(mgr.GetClient().Create(ctx, child))
	}
	if err := ctrl.NewControllerManagedBy(mgr).Named("page").For(page).Owns(&corev1.ConfigMap{}).
		Complete(reconcilerFunc(reconcile)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	running := make(chan error, 1)
	go func() { running <- mgr.Start(ctx) }()

	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := page.DeepCopy()
	web.SetNamespace("default")
	web.SetName("web")
	if err := unstructured.SetNestedField(web.Object, "nginx:1", "spec", "image"); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, web); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(web)
	exists := func(key client.ObjectKey, o client.Object) bool {
		err := c.Get(ctx, key, o)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	eventually(t, "the ConfigMap of the WebServer", func() bool { return exists(key, &corev1.ConfigMap{}) })
	if err := c.Delete(ctx, web); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ConfigMap goes with its owner", func() bool { return !exists(key, &corev1.ConfigMap{}) })
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if err := c.Create(ctx, shop); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, shop); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace goes", func() bool { return !exists(client.ObjectKey{Name: "shop"}, shop) })

	usersAreAuthorized(t, env)
	stop()
	if err := <-running; err != nil {
		t.Error(err)
	}
	stopped = true
	began := time.Now()
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if _, err := os.Stat(certDir); !os.IsNotExist(err) {
		t.Errorf("%s still exists: %v", certDir, err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, shop); err == nil {
		t.Error("the server still answers")
	}
}

type reconcilerFunc func(context.Context, ctrl.Request) (ctrl.Result, error)

func (f reconcilerFunc) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	return f(ctx, r)
}

// usersAreAuthorized adds users, whose rights are what their groups have: none, or everything.
func usersAreAuthorized(t *testing.T, env *envtest.Environment) {
	for _, tt := range []struct {
		user    envtest.User
		allowed bool
	}{
		{envtest.User{Name: "eve", Groups: []string{"dev"}}, false},
		{envtest.User{Name: "root", Groups: []string{"system:masters"}}, true},
	} {
		user, err := env.AddUser(tt.user, &rest.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := kubernetes.NewForConfig(user.Config())
		if err != nil {
			t.Fatal(err)
		}
		who, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), newReview(), metav1.CreateOptions{})
		want := fmt.Sprint(tt.user.Name, append(tt.user.Groups, "system:authenticated"))
		if err != nil || fmt.Sprint(who.Status.UserInfo.Username, who.Status.UserInfo.Groups) != want {
			t.Errorf("%+v (%v), want %s", who, err, want)
		}
		_, err = c.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if (err == nil) != tt.allowed || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want allowed: %t", tt.user.Name, err, tt.allowed)
		}
	}
}
