package redis

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

const (
	// Container is the name under which a template overlay finds the Redis server's container.
	Container    = "redis"
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
)

// desired returns what should exist for a Redis, the Service and then the pods in the order of their ordinals. An
// error names the field of the spec that is wrong.
func desired(rd *Redis) ([]operator.Child, error) {
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
	// Without a cluster IP the name of the Service resolves to the pods, and NAME-0.NAME to one of them.
	service := map[string]any{"clusterIP": "None", "selector": operator.SelectorLabels(app, rd.Name),
		"ports": []any{port}}
	children := append(make([]operator.Child, 0, 1+*rd.Spec.Num),
		operator.Child{Resource: services, Name: rd.Name, Body: map[string]any{"spec": service}})
	meta, _ := template["metadata"].(map[string]any)
	overlaid, _ := meta["labels"].(map[string]any)
	labels := map[string]any{RevisionLabel: revision}
	maps.Copy(labels, overlaid) // podTemplate has seen to it that none of these are ours
	common := map[string]any{"labels": labels}
	if annotations, ok := meta["annotations"]; ok {
		common["annotations"] = annotations
	}
	for i := range int(*rd.Spec.Num) {
		spec, _ := template["spec"].(map[string]any)
		spec, name := maps.Clone(spec), podName(rd.Name, i)
		spec["hostname"], spec["subdomain"] = name, rd.Name
		children = append(children, operator.Child{Resource: pods, Name: name,
			Body:     map[string]any{"metadata": common, "spec": spec},
			MinReady: time.Duration(rd.Spec.MinReadySeconds) * time.Second})
	}
	return children, nil
}

func podName(name string, ordinal int) string { return name + "-" + strconv.Itoa(ordinal) }

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
		"name":  Container,
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
	template, err = operator.Overlay(patch.SchemaFor(pods.APIVersion(), pods.Kind), template, rd.Spec.Template)
	if err != nil {
		return nil, err
	}
	if _, ok := template["spec"].(map[string]any); !ok {
		return nil, errors.New("spec.template: leaves nothing of the pod's spec")
	}
	meta, _ := template["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	for _, key := range append([]string{apply.ManagedByLabel, RevisionLabel}, operator.SelectorKeys...) {
		if _, ok := labels[key]; ok {
			return nil, fmt.Errorf("spec.template.metadata.labels: %s is skiff's own label; remove it", key)
		}
	}
	return template, nil
}

func image(rd *Redis) string {
	if rd.Spec.Image == nil {
		return defaultImage
	}
	return *rd.Spec.Image
}

// decodeField decodes a raw field of the spec that has to be an object; nil if it is not set.
func decodeField(name string, raw kube.Raw) (map[string]any, error) {
	v, err := operator.Decode("spec."+name, raw)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if v != nil && !ok {
		return nil, fmt.Errorf("spec.%s: must be an object", name)
	}
	return object, nil
}

// revisionOf returns the hash of a template. Each change of it rolls the pods: a new version of skiff that makes
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

// validate checks what the schema of the CRD checks already, for clusters with an older one.
func validate(rd *Redis) error {
	if err := operator.CheckName(rd.Name, "-999", "the last pod"); err != nil {
		return err // a pod's host name is a DNS label, and there may be a thousand of them
	}
	s := &rd.Spec
	switch {
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
