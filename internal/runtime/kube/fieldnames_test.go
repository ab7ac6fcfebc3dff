package kube

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver/schema"
)

var updateNames = flag.Bool("update-names", false, "write fieldnames.txt")

// addFields adds the names of the fields of a type and of those below it.
func addFields(v *schema.Value, seen map[*schema.Type]bool, names map[string]bool) {
	for ; v != nil && v.Type == nil; v = v.Elem {
	}
	if v == nil || seen[v.Type] {
		return
	}
	seen[v.Type] = true
	for name, f := range v.Type.Fields {
		if name != "status" && name != "managedFields" {
			names[name] = true
			addFields(f.Value, seen, names)
		}
	}
}

func TestTheNamesOfFieldsAreThoseOfTheKindsThatControllersMake(t *testing.T) {
	names := map[string]bool{}
	for apiVersion, kinds := range map[string][]string{
		"v1":      {"Pod", "Service", "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim"},
		"apps/v1": {"Deployment", "StatefulSet", "DaemonSet"}, "batch/v1": {"CronJob"},
		"networking.k8s.io/v1": {"Ingress"}, "autoscaling/v2": {"HorizontalPodAutoscaler"},
		"policy/v1": {"PodDisruptionBudget"},
	} {
		for _, kind := range kinds {
			of := schema.For(apiVersion, kind)
			if of == nil {
				t.Fatal("there is no", kind)
			}
			addFields(&schema.Value{Type: of}, map[*schema.Type]bool{}, names)
		}
	}
	want := strings.Join(slices.Sorted(maps.Keys(names)), "\n") + "\n"
	if *updateNames {
		if err := os.WriteFile("fieldnames.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("fieldnames.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != want {
		t.Error("fieldnames.txt is not what the schema has: go test ./internal/runtime/kube -update-names")
	}
}
