package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Metacontroller's own examples pass with skiff in its place: each test.sh of the checkout that METACONTROLLER_SOURCE
// names. Package outside runs them on skiff-dev.
func TestMetacontrollersOwnExamples(t *testing.T) {
	checkout := os.Getenv("METACONTROLLER_SOURCE")
	if checkout == "" {
		t.Skip("METACONTROLLER_SOURCE names no checkout of metacontroller")
	}
	s := newScope(t)
	tests, err := filepath.Glob(filepath.Join(checkout, "examples", "*", "test.sh"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("%s has no examples: %v", checkout, err)
	}
	outside := filepath.Join("..", "outside")
	known := readFile(t, filepath.Join(outside, "exceptions.txt"))
	startVolumeControllers(t, s.c)
	env := []string{"SKIFF=" + must(skiffBinary())(t), "KUBECONFIG=" + must(s.c.Kubeconfig(admin))(t)}
	for _, test := range tests {
		example := filepath.Base(filepath.Dir(test))
		t.Run(example, func(t *testing.T) {
			if strings.Contains(known, "\nmetacontroller: "+example+" | ") {
				t.Skip("see exceptions.txt of package outside")
			}
			r, err := runCommand(t.Context(), env, "", "bash", filepath.Join(outside, "metacontroller", "run.sh"),
				checkout, example)
			if err != nil || r.Code != 0 {
				t.Errorf("%v %s", err, r)
			}
		})
	}
}

// startVolumeControllers starts what binds claims to volumes, as those of catset need, until the test is over. Other
// tests have claims that nothing may bind.
func startVolumeControllers(t *testing.T, c *Cluster) {
	t.Helper()
	volumes := must(c.Start("kube-controller-manager-of-volumes", nil, c.bins.controllerManager, "--kubeconfig",
		must(c.Kubeconfig(controllerManager))(t), "--leader-elect=false", "--secure-port=0", "--controllers",
		"persistentvolume-binder-controller,persistentvolume-protection-controller,"+
			"persistentvolumeclaim-protection-controller"))(t)
	t.Cleanup(func() {
		if inTime, err := volumes.Stop(limit); err != nil || !inTime {
			t.Errorf("the controller manager does not end: %v", err)
		}
	})
}
