package spec

import (
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
)

func TestDifferencesAreThoseOfWhatAControllerSays(t *testing.T) {
	for text, want := range map[string]string{
		`"kind":"CompositeController","metadata":{"name":"a"},"spec":{"resyncPeriodSeconds":60,"generateSelector":true,
			"parentResource":{"apiVersion":"e.com/v1","resource":"things"},
			"hooks":{"sync":{"webhook":{"url":"http://h/s"}}}}`: "",
		`"kind":"DecoratorController","metadata":{"name":"a"},"spec":{
			"resources":[{"apiVersion":"v1","resource":"pods"}],
			"attachments":[{"apiVersion":"apps/v1","resource":"deployments",
				"updateStrategy":{"method":"RollingRecreate"}}],
			"hooks":{"sync":{"exec":{"command":["/h"]}},"finalize":{"webhook":{"url":"http://h/s"}},
				"customize":{"webhook":{"url":"http://h/s"}}}}`: "spec.resyncPeriodSeconds spec.hooks.sync " +
			"spec.attachments spec.attachments spec.attachments[deployments.apps].updateStrategy.method " +
			"spec.hooks.finalize spec.hooks.customize spec.hooks.sync.exec",
		`"kind":"CompositeController","metadata":{"name":"a"},"spec":{"resyncPeriodSeconds":60,
			"parentResource":{"apiVersion":"e.com/v1","resource":"things"},
			"childResources":[{"apiVersion":"v1","resource":"pods","updateStrategy":{"method":"RollingInPlace"}},
				{"apiVersion":"v1","resource":"secrets"}],
			"hooks":{"sync":{"webhook":{"url":"http://h/s",
				"basicAuth":{"secretRef":{"namespace":"n","name":"s"}}}}}}`: "spec.hooks.sync spec.childResources " +
			"spec.childResources spec.childResources[pods].updateStrategy.method " +
			"spec.childResources[pods].updateStrategy.method spec.hooks.sync.webhook",
	} {
		c, err := FromObject(kube.Raw(`{"apiVersion":"metacontroller.k8s.io/v1alpha1",` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, d := range Differences(c) {
			fields = append(fields, d.Field)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}
