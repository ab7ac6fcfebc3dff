package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/features"
)

// The embedded server as an older version answers as the real server of that version does, and the newest one with
// its feature gates.
func TestOlderServersAnswerAsTheRealOnes(t *testing.T) {
	newest := features.Set{}.Minor()
	for _, test := range []struct{ version, gates string }{
		{fmt.Sprint("1.", newest), ""},
		{fmt.Sprint("1.", newest),
			"WatchList=false,HostnameOverride=false,MaxUnavailableStatefulSet=true,ComponentFlagz=false"},
		{"1.34", ""},
		{"1.34", "HostnameOverride=true,ImageVolume=true,MaxUnavailableStatefulSet=true"},
	} {
		t.Run(test.version+" "+test.gates, func(t *testing.T) {
			set := must(features.New(test.version, test.gates))(t)
			bins := must(binaries())(t)
			if set.Minor() != newest {
				if !*versions {
					t.Skip("builds kube-apiserver " + set.Version() + ": run it with -versions")
				}
				bins.apiserver = must(buildServer(t.Context(), bins.Dir, set.Version()))(t)
			}
			var flags []string
			if test.gates != "" {
				flags = append(flags, "--feature-gates="+test.gates)
			}
			cluster := must(StartControlPlane(t.Context(), bins, flags...))(t)
			t.Cleanup(func() { cluster.Close(t.Failed()) })
			_, fake := serveFakeWith(t, apiserver.Options{Features: set})
			runDifferential(t, versionScript(set), cluster.Admin, fake, []*Allowance{{Script: "*", Step: "image*",
				Path: "Body.metadata.managedFields*.f:pullPolicy", Why: "Its default is owned, and not stored."}})
		})
	}
}

// buildServer builds the kube-apiserver of another version than that of go.mod, in a module of its own.
func buildServer(ctx context.Context, cache, version string) (string, error) {
	path := filepath.Join(filepath.Dir(cache), "kube-apiserver-"+version)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "skiff-e2e-version-")
	if err != nil {
		return "", fmt.Errorf("make a directory for a module: %w", err)
	}
	defer os.RemoveAll(dir)
	source, err := goTool(ctx, dir, nil, "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	if err != nil {
		return "", err
	}
	where := regexp.MustCompile(`"GoMod": "(.*)"`).FindStringSubmatch(string(source))
	if where == nil {
		return "", fmt.Errorf("download k8s.io/kubernetes@%s: no go.mod in %s", version, source)
	}
	text, err := os.ReadFile(where[1])
	if err != nil {
		return "", fmt.Errorf("read the module of Kubernetes: %w", err)
	}
	// It is released together with its staging modules, which its own go.mod replaces by directories.
	const pkg = "k8s.io/kubernetes/cmd/kube-apiserver"
	module := "module versions\n\ngo 1.24\n\nrequire k8s.io/kubernetes " + version + "\n\ntool " + pkg + "\n"
	for _, m := range regexp.MustCompile(`(?m)^\s*(k8s\.io/\S+) => \./staging`).FindAllStringSubmatch(string(text), -1) {
		module += "replace " + m[1] + " => " + m[1] + " v0" + strings.TrimPrefix(version, "v1") + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		return "", fmt.Errorf("write the module: %w", err)
	}
	if _, err := goTool(ctx, dir, nil, "mod", "tidy"); err != nil { // go get would take the newest version
		return "", err
	}
	return path, buildOnce(ctx, dir, path, pkg, kubeLDFlags(version))
}

// versionScript asks for what has come since 1.32: kinds, fields, and features with a gate.
func versionScript(set features.Set) Script {
	s := Script{Name: "versions"}
	get := func(path string) { s.Steps = append(s.Steps, Step{Name: "GET " + path, Path: path}) }
	for _, path := range []string{"/apis/networking.k8s.io/v1/servicecidrs?labelSelector=none",
		"/apis/networking.k8s.io/v1/ipaddresses?labelSelector=none",
		"/apis/resource.k8s.io/v1/resourceclaims", "/apis/storage.k8s.io/v1/volumeattributesclasses",
		"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", "/api/v1/${ns}/endpoints"} {
		get(path)
	}
	watch := "/api/v1/${ns}/configmaps?" + url.Values{"watch": {"1"}, "sendInitialEvents": {"true"},
		"resourceVersionMatch": {"NotOlderThan"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"1"},
		"fieldSelector": {"metadata.name=none"}}.Encode()
	s.Steps = append(s.Steps, Step{Name: "a watch that begins with a list", Path: watch, ToEnd: true},
		Step{Name: "flags of the server", Path: "/flagz", Accept: "text/plain", Method: "HEAD"})
	fields := [][2]string{
		{"hostnameOverride", `"hostnameOverride":"a"`},
		{"schedulingGroup", `"schedulingGroup":{"podGroupName":"g"}`},
		{"resources", `"resources":{"limits":{"cpu":"1"}}`},
		{"hostUsers", `"hostUsers":false`},
		{"stopSignal", `"os":{"name":"linux"},"initContainers":[{"name":"i","image":"i","restartPolicy":"Always",` +
			`"lifecycle":{"stopSignal":"SIGUSR1","preStop":{"sleep":{"seconds":1}}}}]`},
		{"image", `"volumes":[{"name":"w"},{"name":"v","image":{"reference":"r"}}],"initContainers":[{"name":"i",` +
			`"image":"i","volumeMounts":[{"name":"v","mountPath":"/v"},{"name":"w","mountPath":"/w"}]}]`},
		{"restartPolicyRules", `"initContainers":[{"name":"i","image":"i","restartPolicy":"Never",` +
			`"restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[1]}}]}]`},
	}
	for _, named := range fields {
		for _, validation := range []string{"Strict", "Ignore"} {
			s.Steps = append(s.Steps, Step{Name: named[0] + ", " + validation, Method: "POST",
				Path: "/api/v1/${ns}/pods?fieldValidation=" + validation,
				Body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` +
					strings.ToLower(named[0]+"-"+validation) + `"},"spec":{"containers":[{"name":"c","image":"i"}],` +
					named[1] + `}}`})
		}
	}
	stateful := func(unavailable int) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"a"},"spec":{"selector":{`+
			`"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c",`+
			`"image":"i"}]}},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":%d}}}}`,
			unavailable)
	}
	s.Steps = append(s.Steps,
		Step{Name: "maxUnavailable", Method: "POST", Path: "/apis/apps/v1/${ns}/statefulsets", Body: stateful(2)},
		Step{Name: "maxUnavailable changed", Method: "PUT", Path: "/apis/apps/v1/${ns}/statefulsets/a",
			Body: stateful(3)},
		Step{Name: "tolerance", Method: "POST", Path: "/apis/autoscaling/v2/${ns}/horizontalpodautoscalers",
			Body: `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},"spec":{` +
				`"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"behavior":{"scaleUp":{` +
				`"tolerance":"100m"}}}}`},
		Step{Name: "a target without a group", Method: "POST",
			Path: "/apis/autoscaling/v2/${ns}/horizontalpodautoscalers",
			Body: `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"b"},"spec":{` +
				`"maxReplicas":2,"scaleTargetRef":{"kind":"Deployment","name":"a"}}}`},
		Step{Name: "strategy of a lease", Method: "POST", Path: "/apis/coordination.k8s.io/v1/${ns}/leases",
			Body: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{` +
				`"strategy":"OldestEmulationVersion","preferredHolder":"b","holderIdentity":"a"}}`})
	return s
}
