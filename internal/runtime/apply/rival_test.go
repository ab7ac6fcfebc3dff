package apply

import (
	"testing"

	"skiff/internal/runtime/kube"
)

func TestTheRivalIsWhoOwnsTheFieldThatDiffers(t *testing.T) {
	entry := func(manager, subresource, at, fields string) managedFields {
		return managedFields{Manager: manager, Subresource: subresource, Time: at, FieldsV1: kube.Raw(fields)}
	}
	const image = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{}}}}}}}`
	all := []managedFields{
		entry(Manager, "", "2026-01-01T00:00:09Z", image),
		entry("kube-controller-manager", "status", "2026-01-01T00:00:09Z", `{"f:status":{}}`),
		entry("kubectl-edit", "", "2026-01-01T00:00:05Z", image),
		entry("old", "", "2026-01-01T00:00:01Z", image),
		entry("labeler", "", "2026-01-01T00:00:07Z", `{"f:metadata":{"f:labels":{"f:app.example.com/x":{}}}}`),
		entry("broken", "", "2026-01-01T00:00:02Z", `{"f:`),
	}
	for path, want := range map[string]string{
		`spec.template.spec.containers[name="web"].image`: "kubectl-edit",
		`metadata.labels.app.example.com/x`:               "labeler",
		`spec.template.spec.containers[name="db"].image`:  "labeler", // nobody owns it: the one that wrote last
		`spec.templates`: "labeler",
	} {
		if got := rivalOf(all, Manager, []string{path}); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := rivalOf(all[:2], Manager, []string{"spec.replicas"}); got != "" {
		t.Errorf("without another manager: %q", got)
	}
}
