package e2e

import (
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/webserver"
)

// A WebServer was ready when skiff could see its Deployment last. Without that right it is unknown: the status says
// so after two minutes; it is Ready again when the right is back.
func TestAWebServerWhoseDeploymentCannotBeSeenIsUnknown(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	sk := startSkiffWith(t, s, "webserver", webserver.Rights)
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
	s.waitCondition("web", "Ready", "True")
	noError(t, sk.Terminate())
	sk = startSkiffWith(t, s, "webserver", without(without(webserver.Rights, "list", "deployments.apps"), "watch",
		"deployments.apps"))
	Eventually(t, 2*time.Minute+limit, "Ready is Unknown", func() (bool, string) {
		c := s.WebServer("web").Condition("Ready")
		return c.Str("status") == "Unknown" && strings.Contains(c.Str("message"),
			"may not list and watch deployments.apps; "), c.String()
	})
	code, body, err := sk.probe("/readyz?verbose")
	const said = "the status of the objects says that their state is not known"
	if err != nil || code != 200 || !strings.Contains(body, said) {
		t.Errorf("/readyz?verbose: %d %v\n%s", code, err, body)
	}
	s.Apply(grant("Role", "skiff", s.NS, webserver.Rights))
	s.waitCondition("web", "Ready", "True")
}
