package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// plug puts a plugin into the chain of a server.
func (w *testServer) plug(p admission.Plugin) {
	w.s.makePlugins = append(w.s.makePlugins, func(*store.Tx) []admission.Plugin { return []admission.Plugin{p} })
	w.s.chainAt = -1
}

func (w *testServer) validate(by func(a *admission.Attributes) error) {
	w.plug(admission.Plugin{Concerns: everything,
		Validate: func(_ context.Context, a *admission.Attributes) error { return by(a) }})
}

func everything(*admission.Attributes) bool { return true }

// label returns a plugin that labels what is written, and counts.
func label(key string, calls *int) admission.Plugin {
	return admission.Plugin{Concerns: everything, Mutate: func(_ context.Context, a *admission.Attributes) error {
		*calls++
		if a.Operation == admission.Delete {
			return nil
		}
		next := obj.Clone(a.Object)
		obj.Set(next, fmt.Sprint(*calls), "metadata", "labels", key)
		obj.Set(next, int64(7), "noSuchField")
		var err error
		a.Object, err = a.Complete(next)
		return err
	}}
}

func TestPluginsChangeAndSeeWhatIsWritten(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		var calls int
		var seen []string
		w.plug(label("touched", &calls))
		w.validate(func(a *admission.Attributes) error {
			stored := "new"
			if a.OldObject != nil {
				stored = obj.String(a.OldObject, "metadata", "labels", "touched")
			}
			seen = append(seen, strings.TrimSpace(fmt.Sprintf("%s %s/%s %s %s->%s %s", a.Operation, a.Resource.Plural,
				a.Subresource, a.Name, stored, obj.String(a.Object, "metadata", "labels", "touched"),
				obj.String(a.NamespaceObject, "metadata", "name"))))
			if (a.Operation == admission.Create) && obj.String(a.Object, "metadata", "uid") == "" {
				t.Error("a validator sees a new object without its uid")
			}
			return nil
		})
		w.must(201, "POST", deployments, `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":
			{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
		w.must(200, "PATCH", deployments+"/d", `{"spec":{"replicas":2}}`, "Content-Type",
			"application/merge-patch+json")
		w.must(200, "PATCH", deployments+"/d/scale", `{"spec":{"replicas":3}}`, "Content-Type",
			"application/merge-patch+json")
		if a := w.must(200, "GET", deployments+"/d", ""); a.at("spec.replicas") != int64(3) ||
			a.at("metadata.labels.touched") != "2" || a.at("noSuchField") != nil {
			t.Errorf("stored: %s", a.raw)
		}
		w.must(200, "DELETE", deployments+"/d", "")
		want := []string{"CREATE deployments/ d new->1 default", "UPDATE deployments/ d 1->2 default",
			"UPDATE deployments/scale d -> default", "DELETE deployments/ d 2-> default"}
		if !slices.Equal(seen, want) {
			t.Errorf("seen\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestAPluginThatRefusesChangesNothing(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", configMaps, configMap("kept"))
		w.must(201, "POST", pods, podBody("p"))
		before := w.s.Revision()
		w.validate(func(a *admission.Attributes) error {
			a.Warn("no")
			return httpd.Failure(http.StatusTeapot, "Teapot", "no "+a.Operation, httpd.NoDetails)
		})
		for _, c := range [][3]string{{"POST", configMaps, configMap("new")},
			{"PATCH", configMaps + "/kept", `{"data":{"a":"c"}}`}, {"PUT", configMaps + "/kept", configMap("kept")},
			{"DELETE", configMaps + "/kept", ""}, {"DELETE", configMaps, ""},
			{"POST", pods + "/p/eviction", `{"metadata":{"name":"p"}}`},
			{"POST", pods + "/p/binding", `{"metadata":{"name":"p"},"target":{"name":"n"}}`},
			{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
				`{"spec":{"resourceAttributes":{"verb":"get"}}}`}} {
			var header []string
			if c[0] == "PATCH" {
				header = []string{"Content-Type", "application/merge-patch+json"}
			}
			if a := w.do(c[0], c[1], c[2], header...); a.code != http.StatusTeapot ||
				a.header.Get("Warning") != `299 - "no"` {
				t.Errorf("%s %s: %d %s %s", c[0], c[1], a.code, a.header["Warning"], a.raw)
			}
		}
		if after := w.s.Revision(); after != before {
			t.Errorf("revision %d became %d", before, after)
		}
	})
}

// A webhook may write to the server that calls it, and so change the very object that it is asked about.
func TestAWriteThatAnotherOvertakesStartsAgain(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", configMaps, configMap("c"))
		var calls, conflicts int
		w.plug(label("touched", &calls))
		w.validate(func(a *admission.Attributes) error {
			if obj.String(a.Object, "data", "mine") != "" && conflicts < 2 {
				conflicts++
				w.must(200, "PATCH", configMaps+"/c", fmt.Sprintf(`{"data":{"theirs":"%d"}}`, conflicts),
					"Content-Type", "application/merge-patch+json")
			}
			return nil
		})
		a := w.must(200, "PATCH", configMaps+"/c", `{"data":{"mine":"x"}}`, "Content-Type",
			"application/merge-patch+json")
		if a.at("data.mine") != "x" || a.at("data.theirs") != "2" || conflicts != 2 {
			t.Errorf("stored after %d rounds: %s", conflicts, a.raw)
		}
		// A PUT names the version that it replaces, so it gets a conflict.
		conflicts = 0
		version, _ := a.at("metadata.resourceVersion").(string)
		w.must(409, "PUT", configMaps+"/c", `{"metadata":{"name":"c","resourceVersion":"`+version+
			`"},"data":{"mine":"y"}}`)
	})
}

func TestAllocatedValuesAreThoseThatAPluginHasSeen(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		const services = "/api/v1/namespaces/default/services"
		var seen []string
		w.validate(func(a *admission.Attributes) error {
			address := obj.String(a.Object, "spec", "clusterIP")
			if seen = append(seen, address); len(seen) == 1 { // another Service takes it
				w.must(201, "POST", services, `{"metadata":{"name":"thief"},"spec":{"clusterIP":"`+address+
					`","ports":[{"port":80}]}}`)
			}
			return nil
		})
		a := w.must(201, "POST", services, `{"metadata":{"generateName":"s-"},"spec":{"ports":[{"port":80}]}}`)
		if len(seen) != 3 || a.at("spec.clusterIP") != seen[2] || seen[2] == seen[0] {
			t.Errorf("the addresses %v were shown, stored is %v", seen, a.at("spec.clusterIP"))
		}
	})
}
