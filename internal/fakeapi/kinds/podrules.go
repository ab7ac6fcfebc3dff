package kinds

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
)

// podChecks are those of a pod's spec besides its containers.
var podChecks = []check{
	must("restartPolicy", among("Always", "OnFailure", "Never")),
	must("dnsPolicy", among("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
	must("activeDeadlineSeconds", between(1, 1<<31-1, "must be between 1 and 2147483647, inclusive")),
	must("nodeSelector", keysAre(selector.QualifiedName, false)),
	must("serviceAccountName", valid(selector.Subdomain)),
	must("hostname", valid(selector.Label)),
	must("tolerations[].operator", among("Equal", "Exists")),
	must("tolerations[]", func(at string, v any) []Cause {
		t, _ := v.(Object)
		if value := obj.String(t, "value"); value != "" && t["operator"] == "Exists" {
			return []Cause{Invalid(at+".operator", value, "value must be empty when `operator` is 'Exists'")}
		}
		return nil
	}),
	must("volumes", unique("name", "")),
	must("volumes[].name", present(""), valid(selector.Label)),
	must("volumes[]", oneOfThem("volume", "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk",
		"awsElasticBlockStore", "secret", "nfs", "iscsi", "glusterfs", "persistentVolumeClaim", "rbd", "cinder",
		"cephfs", "flocker", "downwardAPI", "fc", "azureFile", "configMap", "vsphereVolume", "quobyte", "azureDisk",
		"photonPersistentDisk", "portworxVolume", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image")),
	must("volumes[].secret.secretName", present("")),
	must("volumes[].configMap.name", present("")),
	must("volumes[].hostPath.path", present("")),
	must("volumes[].persistentVolumeClaim.claimName", present("")),
}

// containerChecks are those of each container.
var containerChecks = slices.Concat([]check{
	must("image", present(""), valid(func(image string) string {
		if strings.TrimSpace(image) != image {
			return "must not have leading or trailing whitespace"
		}
		return ""
	})),
	must("imagePullPolicy", among("Always", "IfNotPresent", "Never")),
	must("ports", unique("name", "")),
	must("ports[].containerPort", func(at string, v any) []Cause {
		if n, ok := v.(int64); !ok || n == 0 {
			return []Cause{Required(at, "")}
		}
		return aPort(at, v)
	}),
	must("ports[].protocol", among("SCTP", "TCP", "UDP")),
	must("ports[].name", func(at string, v any) []Cause {
		if name, _ := v.(string); name != "" {
			return InvalidAll(at, name, selector.PortName(name))
		}
		return nil
	}),
	must("env[].name", present(""), valid(func(name string) string {
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '=' }) {
			return "a valid environment variable name must consist only of printable ASCII characters other than '='"
		}
		return ""
	})),
	must("env[]", func(at string, v any) []Cause {
		if e, _ := v.(Object); obj.String(e, "value") != "" && e["valueFrom"] != nil {
			return []Cause{Invalid(at+".valueFrom", "", "may not be specified when `value` is not empty")}
		}
		return nil
	}),
	must("volumeMounts", unique("mountPath", "must be unique")),
	must("volumeMounts[].name", present("")),
	must("volumeMounts[].mountPath", present("")),
	must("resources.limits{}", quantity),
	must("resources.requests{}", quantity),
	must("resources", func(at string, v any) []Cause {
		var out []Cause
		resources, _ := v.(Object)
		for _, name := range sortedKeys(obj.Map(resources, "requests")) {
			request, limit := obj.Get(resources, "requests", name), obj.Get(resources, "limits", name)
			if c, ok := compareQuantities(request, limit); ok && c > 0 {
				out = append(out, Invalid(at+".requests", request,
					fmt.Sprintf("must be less than or equal to %s limit of %v", name, limit)))
			}
		}
		return out
	}),
	must("lifecycle.postStart", oneOfThem("handler", "exec", "httpGet", "tcpSocket", "sleep")),
	must("lifecycle.preStop", oneOfThem("handler", "exec", "httpGet", "tcpSocket", "sleep")),
}, probeChecks("livenessProbe", between(1, 1, "must be 1")), probeChecks("startupProbe", between(1, 1, "must be 1")),
	probeChecks("readinessProbe", notNegative))

func probeChecks(probe string, successes test) []check {
	return []check{
		must(probe, oneOfThem("handler", "exec", "httpGet", "tcpSocket", "grpc")),
		must(probe+".exec.command", present("")),
		must(probe+".httpGet.port", aPort),
		must(probe+".tcpSocket.port", aPort),
		must(probe+".initialDelaySeconds", notNegative),
		must(probe+".timeoutSeconds", notNegative),
		must(probe+".periodSeconds", notNegative),
		must(probe+".failureThreshold", notNegative),
		must(probe+".successThreshold", successes),
	}
}

// podSpecRules validates the spec of a pod or of a template. claims are the volumes that a StatefulSet adds.
func podSpecRules(spec Object, path string, claims ...Object) []Cause {
	if len(obj.Maps(spec, "containers")) == 0 {
		return []Cause{Required(path+".containers", "")}
	}
	out := runChecks(spec, path, podChecks)
	volumes := map[string]bool{}
	for _, v := range obj.Maps(spec, "volumes") {
		volumes[obj.String(v, "name")] = true
	}
	for _, c := range claims {
		volumes[obj.String(c, "metadata", "name")] = true
	}
	seen := map[string]bool{}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for i, c := range obj.Maps(spec, list) {
			at := fmt.Sprintf("%s.%s[%d]", path, list, i)
			name := obj.String(c, "name")
			switch {
			case name == "":
				out = append(out, Required(at+".name", ""))
			case selector.Label(name) != "":
				out = append(out, Invalid(at+".name", name, selector.Label(name)))
			case seen[name]:
				out = append(out, Duplicate(at+".name", name))
			}
			seen[name] = true
			out = append(out, runChecks(c, at, containerChecks)...)
			each(c, at, "volumeMounts[].name", func(at string, v any) {
				if name, _ := v.(string); name != "" && !volumes[name] {
					out = append(out, NotFound(at, name))
				}
			})
		}
	}
	return out
}
