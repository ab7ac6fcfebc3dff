package redis

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"time"

	"skiff/internal/apply"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

const (
	// container is the name under which a template overlay finds the Redis server's container.
	container    = "redis"
	defaultImage = "redis:7-alpine"
	// portName names the port of the container and of the Service. A named target port lets pods of the old and the
	// new port serve side by side during a roll.
	portName = "redis"
)

// The bounds of the schema, repeated for clusters with an older one.
const (
	minPort, maxPort = 6370, 6380
	// maxNum bounds the members in the status: at some 150 bytes each, a thousand are a tenth of what etcd stores.
	maxNum = 1000
	// maxName leaves room for "-999" within the 63 characters of a DNS label, which a pod's host name is.
	maxName = 63 - len("-999")
)

// desired is what should exist for a Redis.
type desired struct {
	num      int
	minReady time.Duration
	template map[string]any // metadata and spec that all pods have in common
	revision string         // hash of template
	service  apply.Child
}

// desire returns what should exist for a Redis: a pure function of its spec and identity. An error names the field
// of the spec that is wrong.
func desire(rd *Redis) (*desired, error) {
	if err := validate(rd); err != nil {
		return nil, err
	}
	template, err := podTemplate(rd)
	if err != nil {
		return nil, err
	}
	revision, err := revisionOf(template)
	if err != nil {
		return nil, err
	}
	port := map[string]any{"name": portName, "port": int64(rd.Spec.Port), "targetPort": portName, "protocol": "TCP"}
	service := map[string]any{
		"apiVersion": services.APIVersion(),
		"kind":       services.Kind,
		"metadata":   metadata(rd, rd.Name),
		// Without a cluster IP the name of the Service resolves to the pods, and NAME-0.NAME to one of them.
		"spec": map[string]any{"clusterIP": "None", "selector": selectorLabels(rd.Name), "ports": []any{port}},
	}
	return &desired{
		num:      int(*rd.Spec.Num),
		minReady: time.Duration(rd.Spec.MinReadySeconds) * time.Second,
		template: template,
		revision: revision,
		service:  apply.Child{Body: service},
	}, nil
}

// metadata returns that of a child: the recommended labels, and the owner.
func metadata(rd *Redis, name string) map[string]any {
	return map[string]any{
		"name":            name,
		"namespace":       rd.Namespace,
		"labels":          childLabels(rd.Name),
		"ownerReferences": []any{apply.OwnerOf(resource, rd).Reference()},
	}
}

// The labels that select the pods.
const (
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
)

// selectorLabels select the pods.
func selectorLabels(name string) map[string]any {
	return map[string]any{nameLabel: "redis", instanceLabel: name}
}

// selector is selectorLabels in the form of `kubectl get -l`, keys in order.
func selector(name string) string {
	return "app.kubernetes.io/instance=" + name + ",app.kubernetes.io/name=redis"
}

// childLabels are selectorLabels and the one that our watches select by.
func childLabels(name string) map[string]any {
	labels := selectorLabels(name)
	labels[apply.ManagedByLabel] = apply.ManagedBy
	return labels
}

func podName(name string, ordinal int) string { return name + "-" + strconv.Itoa(ordinal) }

// pods returns the declared pods, in the order of their ordinals.
func (d *desired) pods(rd *Redis) []apply.Child {
	out := make([]apply.Child, d.num)
	for i := range out {
		out[i] = apply.Child{Body: d.podBody(rd, i), MinReady: d.minReady}
	}
	return out
}

// podBody returns the pod of an ordinal.
func (d *desired) podBody(rd *Redis, ordinal int) map[string]any {
	name := podName(rd.Name, ordinal)
	overlaid, _ := d.template["metadata"].(map[string]any)
	labels := map[string]any{}
	for _, set := range []any{overlaid["labels"], childLabels(rd.Name), map[string]any{RevisionLabel: d.revision}} {
		set, _ := set.(map[string]any)
		maps.Copy(labels, set)
	}
	meta := metadata(rd, name)
	meta["labels"] = labels
	if annotations, ok := overlaid["annotations"]; ok {
		meta["annotations"] = annotations
	}
	common, _ := d.template["spec"].(map[string]any)
	spec := maps.Clone(common)
	spec["hostname"], spec["subdomain"] = name, rd.Name
	return map[string]any{"apiVersion": pods.APIVersion(), "kind": pods.Kind, "metadata": meta, "spec": spec}
}

// podTemplate returns what the pods have in common, with the user's overlay laid over it.
func podTemplate(rd *Redis) (map[string]any, error) {
	directives, err := configOf(rd)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(int(rd.Spec.Port))
	args := []any{"redis-server"}
	for _, line := range directives.lines() {
		args = append(args, line)
	}
	c := map[string]any{
		"name":  container,
		"image": image(rd),
		// As arguments, not as a command: so the image's own entry point runs, which gives up root first.
		"args":  append(args, "--port", port),
		"ports": []any{map[string]any{"name": portName, "containerPort": int64(rd.Spec.Port), "protocol": "TCP"}},
		"readinessProbe": map[string]any{
			// The answer counts: redis-cli exits with 0 also where the server says LOADING or NOAUTH.
			"exec": map[string]any{"command": []any{"sh", "-c", "redis-cli -p " + port + " ping | grep -qx PONG"}},
			// A shell and redis-cli take some ten milliseconds, on a throttled CPU a second.
			"periodSeconds": int64(5), "timeoutSeconds": int64(3),
		},
	}
	if password, ok := directives.password(); ok {
		c["env"] = []any{map[string]any{"name": "REDISCLI_AUTH", "value": password}}
	}
	resources, err := decodeField("resources", rd.Spec.Resources)
	if err != nil {
		return nil, err
	}
	if resources != nil {
		c["resources"] = resources
	}
	template := map[string]any{"spec": map[string]any{"containers": []any{c}}}
	overlay, err := decodeField("template", rd.Spec.Template)
	if err != nil || overlay == nil {
		return template, err
	}
	// The schema says which lists are merged, and by which key.
	merged, err := patch.StrategicMerge(patch.SchemaFor(pods.APIVersion(), pods.Kind), template, overlay)
	if err != nil {
		return nil, fmt.Errorf("spec.template: %w", err)
	}
	if _, ok := merged["spec"].(map[string]any); !ok {
		return nil, errors.New("spec.template: leaves nothing of the pod's spec")
	}
	return merged, nil
}

func image(rd *Redis) string {
	if rd.Spec.Image == nil {
		return defaultImage
	}
	return *rd.Spec.Image
}

// decodeField decodes a raw field of the spec that has to be an object; nil if it is not set.
func decodeField(name string, raw kube.Raw) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := patch.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("spec.%s: %w", name, err)
	}
	object, ok := v.(map[string]any)
	if v != nil && !ok {
		return nil, fmt.Errorf("spec.%s: must be an object", name)
	}
	return object, nil
}

// revisionOf returns the hash of a template. Whatever changes it rolls the pods: a new version of skiff that makes
// another template of the same spec would roll those of every Redis, which is why a test holds the value.
func revisionOf(template map[string]any) (string, error) {
	text, err := patch.Encode(template)
	if err != nil {
		return "", fmt.Errorf("spec.template: %w", err)
	}
	// 40 bits tell a handful of revisions of one Redis apart, and are short enough to be read out.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:5]), nil
}

// namePattern is that of a DNS label which begins with a letter, as the name of a Service must be.
var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// validate checks what the schema of the CRD checks already, for clusters with an older one.
func validate(rd *Redis) error {
	s := &rd.Spec
	switch {
	case len(rd.Name) > maxName || !namePattern.MatchString(rd.Name):
		return fmt.Errorf("metadata.name: must be a DNS label that begins with a letter, of at most %d characters, because the pods are named NAME-0 to NAME-999", maxName)
	case s.Port < minPort || s.Port > maxPort:
		return fmt.Errorf("spec.port: must be within %d..%d, is %d", minPort, maxPort, s.Port)
	case s.Num == nil:
		return errors.New("spec.num: must be set; 0 removes all pods")
	case *s.Num < 0 || *s.Num > maxNum:
		return fmt.Errorf("spec.num: must be within 0..%d, is %d", maxNum, *s.Num)
	case s.Image != nil && *s.Image == "":
		return errors.New("spec.image: must not be empty")
	case s.MinReadySeconds < 0:
		return fmt.Errorf("spec.minReadySeconds: must not be negative, is %d", s.MinReadySeconds)
	}
	return nil
}
