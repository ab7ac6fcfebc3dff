package patch

import (
	"errors"
	"strings"
	"testing"
)

// Rules: FS-18
func TestStrategicMergeOfPods(t *testing.T) {
	for _, c := range []struct{ name, target, patch, want string }{
		{"containers are merged by name",
			`{'spec':{'containers':[{'name':'a','image':'1'},{'name':'b'}]}}`,
			`{'spec':{'containers':[{'name':'a','image':'2'}]}}`,
			`{'spec':{'containers':[{'image':'2','name':'a'},{'name':'b'}]}}`},
		{"a new item comes before the others, which is what the API server does",
			`{'spec':{'containers':[{'name':'a'}]}}`,
			`{'spec':{'containers':[{'name':'b'}]}}`,
			`{'spec':{'containers':[{'name':'b'},{'name':'a'}]}}`},
		{"env is merged below containers, null deletes",
			`{'spec':{'containers':[{'name':'a','env':[{'name':'X','value':'1'}],'image':'1'}]}}`,
			`{'spec':{'containers':[{'name':'a','env':[{'name':'Y','value':'2'}],'image':null}]}}`,
			`{'spec':{'containers':[{'env':[{'name':'Y','value':'2'},{'name':'X','value':'1'}],'name':'a'}]}}`},
		{"$patch delete in a list",
			`{'spec':{'volumes':[{'name':'a'},{'name':'b'}]}}`,
			`{'spec':{'volumes':[{'name':'a','$patch':'delete'}]}}`,
			`{'spec':{'volumes':[{'name':'b'}]}}`},
		{"$patch replace in a list",
			`{'spec':{'volumes':[{'name':'a'},{'name':'b'}]}}`,
			`{'spec':{'volumes':[{'$patch':'replace'},{'name':'c'}]}}`,
			`{'spec':{'volumes':[{'name':'c'}]}}`},
		{"$patch replace in an object",
			`{'spec':{'nodeSelector':{'a':'1'}}}`,
			`{'spec':{'nodeSelector':{'$patch':'replace','b':'2'}}}`,
			`{'spec':{'nodeSelector':{'b':'2'}}}`},
		{"$patch delete in an object empties it",
			`{'spec':{'nodeSelector':{'a':'1'}}}`,
			`{'spec':{'nodeSelector':{'$patch':'delete'}}}`,
			`{'spec':{'nodeSelector':{}}}`},
		{"$retainKeys",
			`{'spec':{'volumes':[{'name':'a','emptyDir':{}}]}}`,
			`{'spec':{'volumes':[{'name':'a','$retainKeys':['name','secret'],'secret':{'secretName':'s'}}]}}`,
			`{'spec':{'volumes':[{'name':'a','secret':{'secretName':'s'}}]}}`},
		{"$deleteFromPrimitiveList",
			`{'metadata':{'finalizers':['a','b']}}`,
			`{'metadata':{'$deleteFromPrimitiveList/finalizers':['a']}}`,
			`{'metadata':{'finalizers':['b']}}`},
		{"finalizers are a set",
			`{'metadata':{'finalizers':['a']}}`,
			`{'metadata':{'finalizers':['b','a']}}`,
			`{'metadata':{'finalizers':['b','a']}}`},
		{"$setElementOrder without changes sorts",
			`{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}`,
			`{'spec':{'$setElementOrder/containers':[{'name':'b'},{'name':'a'}]}}`,
			`{'spec':{'containers':[{'name':'b'},{'name':'a'}]}}`},
		{"$setElementOrder as kubectl apply sends it",
			`{'spec':{'containers':[{'name':'a','image':'1'},{'name':'sidecar'}]}}`,
			`{'spec':{'$setElementOrder/containers':[{'name':'a'},{'name':'b'}],'containers':[{'name':'b','image':'2'}]}}`,
			`{'spec':{'containers':[{'image':'1','name':'a'},{'image':'2','name':'b'},{'name':'sidecar'}]}}`},
		{"tolerations are replaced",
			`{'spec':{'tolerations':[{'key':'a'}]}}`,
			`{'spec':{'tolerations':[{'key':'b'}]}}`,
			`{'spec':{'tolerations':[{'key':'b'}]}}`},
		{"a new object loses nulls and directives",
			`{}`,
			`{'spec':{'a':null,'x':{'$patch':'delete'},'$setElementOrder/containers':[],'containers':[{'name':'a','b':null}]}}`,
			`{'spec':{'containers':[{'name':'a'}]}}`},
	} {
		got, err := StrategicMerge(SchemaFor("v1", "Pod"), object(t, c.target), object(t, c.patch))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if encode(t, got) != quotes(c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, encode(t, got), quotes(c.want))
		}
	}
}

func TestStrategicMergeOfOtherKinds(t *testing.T) {
	for _, c := range []struct{ apiVersion, kind, target, patch, want string }{
		{"v1", "Service", `{'spec':{'ports':[{'port':80,'nodePort':30010}]}}`, `{'spec':{'ports':[{'port':80,'name':'x'}]}}`,
			`{'spec':{'ports':[{'name':'x','nodePort':30010,'port':80}]}}`},
		{"policy/v1", "PodDisruptionBudget", `{'spec':{'selector':{'matchLabels':{'a':'1'}}}}`, `{'spec':{'selector':{'matchLabels':{'b':'1'}}}}`,
			`{'spec':{'selector':{'matchLabels':{'b':'1'}}}}`},
		{"apps/v1", "Deployment", `{'spec':{'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':1}}}}`,
			`{'spec':{'strategy':{'$retainKeys':['type'],'type':'Recreate'}}}`, `{'spec':{'strategy':{'type':'Recreate'}}}`},
		{"apps/v1", "Deployment", `{'status':{'conditions':[{'type':'A','status':'True'}]}}`, `{'status':{'conditions':[{'type':'A','status':'False'}]}}`,
			`{'status':{'conditions':[{'status':'False','type':'A'}]}}`},
	} {
		got, err := StrategicMerge(SchemaFor(c.apiVersion, c.kind), object(t, c.target), object(t, c.patch))
		if err != nil {
			t.Errorf("%s %s: %v", c.kind, c.patch, err)
		} else if encode(t, got) != quotes(c.want) {
			t.Errorf("%s %s:\n got %s\nwant %s", c.kind, c.patch, encode(t, got), quotes(c.want))
		}
	}
}

func TestStrategicMergeErrors(t *testing.T) {
	for _, c := range []struct {
		target, patch string
		want          error
	}{
		{`{}`, `{'$patch':'spam'}`, ErrStrategicMismatch},
		{`{'spec':{'volumes':[]}}`, `{'spec':{'volumes':[{'name':'a','$patch':'spam'}]}}`, ErrStrategicMismatch},
		{`{'spec':{}}`, `{'spec':{'$retainKeys':'x'}}`, ErrBadStrategicPatch},
		{`{'spec':{}}`, `{'spec':{'$retainKeys':[],'a':1}}`, ErrBadStrategicPatch},
		{`{'metadata':{'finalizers':['a']}}`, `{'metadata':{'$deleteFromPrimitiveList/finalizers':1}}`, ErrStrategicMismatch},
		{`{}`, `{'$patch':'merge'}`, ErrStrategicMismatch},
		{`{'spec':{}}`, `{'spec':{'$setElementOrder/containers':1}}`, ErrStrategicMismatch},
		{`{'spec':{'containers':[]}}`, `{'spec':{'containers':[{'image':'x'}]}}`, ErrStrategicMismatch},
		{`{'spec':{'containers':[]}}`, `{'spec':{'containers':['x']}}`, ErrStrategicMismatch},
		{`{'spec':{'containers':[]}}`, `{'spec':{'containers':[[]]}}`, ErrListOfLists},
		{`{'spec':{'containers':[]}}`, `{'spec':{'$setElementOrder/containers':[{'name':'a'}],'containers':[{'name':'b'}]}}`, ErrStrategicMismatch},
	} {
		if _, err := StrategicMerge(SchemaFor("v1", "Pod"), object(t, c.target),
			object(t, c.patch)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.patch, err, c.want)
		}
	}
}

func FuzzPatches(f *testing.F) {
	for _, s := range [][2]string{
		{`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":3}]}`},
		{`{"spec":{"containers":[{"name":"a"}]}}`,
			`{"spec":{"$setElementOrder/containers":[{"name":"b"}],"containers":[{"name":"b","$patch":"delete"},null]}}`},
		{`{"metadata":{"finalizers":["a"]}}`,
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"$retainKeys":["x"]}}`},
	} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	node := SchemaFor("v1", "Pod")
	f.Fuzz(func(t *testing.T, docBytes, patchBytes []byte) {
		doc, err := Decode(docBytes)
		if err != nil {
			return
		}
		p, err := Decode(patchBytes)
		if err != nil {
			return
		}
		before := encode(t, doc) + encode(t, p)
		Covered(node, doc, p)
		if ok, path := Covered(node, doc, doc); !ok && !strings.Contains(path, "[") {
			t.Errorf("%s does not cover itself: %s", docBytes, path)
		}
		target, ok := doc.(map[string]any)
		change, ok2 := p.(map[string]any)
		if ok && ok2 {
			_, _ = StrategicMerge(node, target, change)
			FillZero(node, target)
		}
		if encode(t, doc)+encode(t, p) != before {
			t.Errorf("a function changed its arguments %s, %s", docBytes, patchBytes)
		}
	})
}
