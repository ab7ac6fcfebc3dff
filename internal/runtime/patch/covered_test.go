package patch

import (
	"fmt"
	"testing"
)

func TestCoveredNamesTheFirstDifference(t *testing.T) {
	const same = "covered"
	for _, c := range []struct{ name, kind, desired, live, want string }{
		{"fields of others are ignored", "Deployment", `{'spec':{'replicas':3}}`, `{'spec':{'replicas':3.0,'paused':true},'status':{}}`, same},
		{"another value", "Deployment", `{'spec':{'replicas':3}}`, `{'spec':{'replicas':2}}`, "spec.replicas"},
		{"an absent field", "Deployment", `{'spec':{'replicas':0}}`, `{'spec':{}}`, "spec.replicas"},
		{"containers by name, sidecars ignored", "Pod", `{'spec':{'containers':[{'name':'a','image':'x'}]}}`,
			`{'spec':{'containers':[{'name':'s'},{'name':'a','image':'x','imagePullPolicy':'Always'}]}}`, same},
		{"a container's image", "Pod", `{'spec':{'containers':[{'name':'a','image':'x'}]}}`,
			`{'spec':{'containers':[{'name':'a','image':'y'}]}}`, `spec.containers[name="a"].image`},
		{"a missing container", "Pod", `{'spec':{'containers':[{'name':'a'}]}}`, `{'spec':{}}`, "spec.containers"},
		{"a missing container among others", "Pod", `{'spec':{'containers':[{'name':'a'}]}}`, `{'spec':{'containers':[{'name':'b'}]}}`, `spec.containers[name="a"]`},
		{"order of items", "Pod", `{'spec':{'initContainers':[{'name':'a'},{'name':'b'}]}}`,
			`{'spec':{'initContainers':[{'name':'b'},{'name':'a'}]}}`, `spec.initContainers[name="b"] (order)`},
		{"the default protocol is part of the key", "Pod", `{'spec':{'containers':[{'name':'a','ports':[{'containerPort':80}]}]}}`,
			`{'spec':{'containers':[{'name':'a','ports':[{'containerPort':80,'protocol':'UDP'},{'containerPort':80,'protocol':'TCP'}]}]}}`, same},
		{"quantities by value", "Pod", `{'spec':{'containers':[{'name':'a','resources':{'limits':{'cpu':'0.5','memory':'1Gi'},'requests':{'cpu':1}}}]}}`,
			`{'spec':{'containers':[{'name':'a','resources':{'limits':{'cpu':'500m','memory':'1024Mi'},'requests':{'cpu':'1'}}}]}}`, same},
		{"another quantity", "Pod", `{'spec':{'containers':[{'name':'a','resources':{'limits':{'cpu':'0.5'}}}]}}`,
			`{'spec':{'containers':[{'name':'a','resources':{'limits':{'cpu':'501m'}}}]}}`, `spec.containers[name="a"].resources.limits.cpu`},
		{"a label that looks like a quantity is a string", "Pod", `{'metadata':{'labels':{'cpu':'0.5'}}}`, `{'metadata':{'labels':{'cpu':'500m'}}}`, "metadata.labels.cpu"},
		{"nothing is covered by absence", "Pod", `{'spec':{'a':null,'b':{},'c':[],'d':''}}`, `{'spec':{}}`, same},
		{"nothing against something", "Pod", `{'spec':{'d':''}}`, `{'spec':{'d':'x'}}`, "spec.d"},
		{"an empty list covers nothing that is there", "Pod", `{'spec':{'tolerations':[]}}`, `{'spec':{'tolerations':[{'key':'a'}]}}`, "spec.tolerations"},
		{"atomic list with defaults in its items", "Pod", `{'spec':{'tolerations':[{'key':'a'}]}}`, `{'spec':{'tolerations':[{'key':'a','operator':'Equal'}]}}`, same},
		{"atomic list of another length", "Pod", `{'spec':{'tolerations':[{'key':'a'}]}}`, `{'spec':{'tolerations':[{'key':'a'},{'key':'b'}]}}`, "spec.tolerations"},
		{"a set", "Pod", `{'metadata':{'finalizers':['a']}}`, `{'metadata':{'finalizers':['b','a']}}`, same},
		{"a set's missing member", "Pod", `{'metadata':{'finalizers':['c']}}`, `{'metadata':{'finalizers':['b','a']}}`, "metadata.finalizers[=c]"},
		{"an atomic map has no other keys", "Service", `{'spec':{'selector':{'a':'1'}}}`, `{'spec':{'selector':{'a':'1','b':'2'}}}`, "spec.selector.b"},
		{"nor has matchLabels", "Deployment", `{'spec':{'selector':{'matchLabels':{'a':'1'}}}}`, `{'spec':{'selector':{'matchLabels':{'a':'1','b':'2'}}}}`, "spec.selector.matchLabels.b"},
		{"an atomic struct may get defaults", "Pod", `{'spec':{'containers':[{'name':'a','env':[{'name':'X','valueFrom':{'fieldRef':{'fieldPath':'p'}}}]}]}}`,
			`{'spec':{'containers':[{'name':'a','env':[{'name':'X','valueFrom':{'fieldRef':{'fieldPath':'p','apiVersion':'v1'}}}]}]}}`, same},
		{"int-or-string keeps its type", "Service", `{'spec':{'ports':[{'port':80,'targetPort':'80'}]}}`, `{'spec':{'ports':[{'port':80,'protocol':'TCP','targetPort':80}]}}`,
			`spec.ports[port=80,protocol="TCP"].targetPort`},
		{"node ports are the server's", "Service", `{'spec':{'ports':[{'port':80}]}}`, `{'spec':{'clusterIP':'10.0.0.1','ports':[{'port':80,'protocol':'TCP','nodePort':30010}]}}`, same},
		{"an unknown kind: lists are atomic", "WebServer", `{'spec':{'env':[{'name':'a'}]}}`, `{'spec':{'env':[{'name':'b'},{'name':'a'}]}}`, "spec.env"},
		{"the first in byte order", "Pod", `{'spec':{'b':1,'a':1}}`, `{}`, "spec"},
	} {
		apiVersion := "v1"
		if c.kind == "Deployment" {
			apiVersion = "apps/v1"
		}
		ok, path := Covered(SchemaFor(apiVersion, c.kind), decode(t, c.desired), decode(t, c.live))
		if got := map[bool]string{true: same, false: path}[ok]; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAllDifferencesAreCountedAndTheFirstAreNamed(t *testing.T) {
	desired := decode(t, `{'metadata':{'labels':{'a':'1','b':'2'}},'spec':{'replicas':3,'template':{'spec':{'containers':[{'name':'c','image':'x'},{'name':'d'}]}}}}`)
	live := decode(t, `{'metadata':{'labels':{'b':'3'}},'spec':{'replicas':2,'template':{'spec':{'containers':[{'name':'c','image':'y'}]}}}}`)
	paths, count := Differences(SchemaFor("apps/v1", "Deployment"), desired, live, 4)
	want := `[metadata.labels.a metadata.labels.b spec.replicas spec.template.spec.containers[name="c"].image]`
	if got := fmt.Sprint(paths); got != want || count != 5 {
		t.Errorf("got %s of %d, want %s of 5", got, count, want)
	}
	if paths, count := Differences(nil, live, live, 4); paths != nil || count != 0 {
		t.Errorf("of equal objects: %v, %d", paths, count)
	}
}

func TestFillZeroShowsWhatTheServersTypesAlwaysHave(t *testing.T) {
	got := FillZero(SchemaFor("apps/v1", "Deployment"), object(t, `{'spec':{'template':{'spec':{'containers':[{'name':'a'}]}}}}`))
	want := `{"metadata":{},"spec":{"selector":null,"strategy":{},"template":{"metadata":{},"spec":{"containers":[{"name":"a","resources":{}}]}}},"status":{}}`
	if encode(t, got) != want {
		t.Errorf("got %s", encode(t, got))
	}
}

// The table is written by hand where it matters; these are the entries a wrong one would hurt most.
func TestTheTableOfBuiltInKinds(t *testing.T) {
	for _, c := range []struct {
		apiVersion, kind string
		path             []string
		list             ListType
		keys, mergeKey   string
	}{
		{"apps/v1", "Deployment", []string{"spec", "template", "spec", "containers"}, ListMap, "[name]", "name"},
		{"apps/v1", "StatefulSet", []string{"spec", "template", "spec", "topologySpreadConstraints"}, ListMap,
			"[topologyKey whenUnsatisfiable]", "topologyKey"},
		{"v1", "Pod", []string{"spec", "imagePullSecrets"}, ListMap, "[name]", "name"},
		{"v1", "Pod", []string{"spec", "hostAliases"}, ListMap, "[ip]", "ip"},
		{"v1", "Pod", []string{"spec", "tolerations"}, ListAtomic, "[]", ""},
		{"v1", "Pod", []string{"metadata", "ownerReferences"}, ListMap, "[uid]", "uid"},
		{"v1", "Pod", []string{"metadata", "finalizers"}, ListSet, "[]", ""},
		{"v1", "Service", []string{"spec", "ports"}, ListMap, "[port protocol]", "port"},
		{"batch/v1", "CronJob", []string{"spec", "jobTemplate", "spec", "template", "spec", "volumes"}, ListMap,
			"[name]", "name"},
		{"batch/v1", "Job", []string{"status", "conditions"}, ListAtomic, "[]", "type"},
		{"v1", "ServiceAccount", []string{"imagePullSecrets"}, ListAtomic, "[]", ""},
	} {
		n := SchemaFor(c.apiVersion, c.kind)
		for _, name := range c.path {
			n = n.Field(name)
		}
		if n == nil || n.ListType() != c.list || fmt.Sprint(n.Keys) != c.keys || n.MergeKey != c.mergeKey {
			t.Errorf("%s %v: %+v", c.kind, c.path, n)
		}
	}
	if SchemaFor("skiff.dev/v1alpha1", "WebServer") != nil {
		t.Error("a custom resource has a built-in schema")
	}
}
