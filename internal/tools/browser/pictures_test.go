package browser

import (
	"flag"
	"net/http"
	"path/filepath"
	"testing"
)

var pictures = flag.String("pictures", "", "directory to write the pictures of the README to")

// broken are objects of each kind of trouble, beside some that are well.
var broken = []struct{ path, body string }{
	{webServers, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"spec":{
		"image":"nginx:1.23.1","replicas":3}}`},
	{"/apis/skiff.dev/v1alpha1/namespaces/default/redis", `{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis",
		"metadata":{"name":"cache"},"spec":{"port":6379,"num":3}}`},
	{triggers, `{"apiVersion":"skiff.dev/v1alpha1","kind":"RestartTrigger","metadata":{"name":"web"},"spec":{
		"source":{"selector":{"matchLabels":{"app.kubernetes.io/instance":"cache"}}},
		"targets":[{"kind":"Deployment","name":"web"}]}}`},
	{triggers, `{"apiVersion":"skiff.dev/v1alpha1","kind":"RestartTrigger","metadata":{"name":"proxy"},"spec":{
		"source":{"selector":{"matchLabels":{"app.kubernetes.io/instance":"cache"}}},
		"targets":[{"kind":"Deployment","name":"proxy"}]}}`},
	{webServers, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"monitor"},"spec":{
		"image":"nginx:1.23.1","template":{"spec":{"hostNetwork":true}}}}`},
	{"/api/v1/namespaces/default/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"blog-service"},
		"spec":{"ports":[{"port":80}]}}`},
	{webServers, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"blog"},"spec":{
		"image":"nginx:1.23.1"}}`},
	{webServers, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"docs","annotations":{
		"skiff.dev/paused":"true"}},"spec":{"image":"nginx:1.23.1"}}`},
}

const triggers = "/apis/skiff.dev/v1alpha1/namespaces/default/restarttriggers"

// The pictures of the README are made by `make pictures`: an overview with some objects broken, and what happened for
// one that is well.
func TestThePicturesOfTheREADMEAreMade(t *testing.T) {
	if *pictures == "" {
		t.Skip("make pictures makes them")
	}
	c, w := newBrowser(t), newWorld(t, "")
	for _, one := range broken {
		w.do(http.MethodPost, one.path, one.body)
	}
	overview := open(t, c, w.page()+"?state=all", options{width: pictureWidth})
	for _, text := range []string{"TemplateRefused", "TargetMissing", "NameTaken", "paused"} {
		overview.await(text, shows("owners", text))
	}
	overview.await("a WebServer that is ready", shows("owners", "2 of 2 ready"))
	overview.picture(filepath.Join(*pictures, "overview.webp"), "section[data-src^='/debug/owners']")
	object := open(t, c, w.page()+"object/WebServer/default/web", options{width: pictureWidth})
	object.await("the picture", `document.querySelector('.picture .cluster') !== null`)
	object.picture(filepath.Join(*pictures, "object.webp"), ".picture")
	for _, p := range []*tab{overview, object} {
		p.clean(w.origin(), false)
	}
}
