package e2e

// Where the objects of a definition with several versions live.
const (
	gadgetsCRD  = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	oldGadgets  = "/apis/rules.example.com/v1beta1/${ns}/gadgets"
	newGadgets  = "/apis/rules.example.com/v1/${ns}/gadgets"
	leases      = "/apis/coordination.k8s.io/v1/${ns}/leases"
	longestName = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx12345" // 63 characters
)

// gadgetsBody defines a kind with a deprecated version beside the one that is stored.
const gadgetsBody = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"gadgets.rules.example.com"},"spec":{"group":"rules.example.com","scope":"Namespaced",
	"names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},"versions":[
	{"name":"v1beta1","served":true,"storage":false,"deprecated":true,"schema":{"openAPIV3Schema":{"type":"object",
		"x-kubernetes-preserve-unknown-fields":true}}},
	{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
		"x-kubernetes-preserve-unknown-fields":true}}}]}}`

// ruleScripts pin what the protocol catalog says of the server and what no other script asks.
var ruleScripts = []Script{
	{Name: "rules-put-creates", Steps: []Step{
		{Name: "a lease", Method: "PUT", Path: leases + "/put", Body: `{"apiVersion":"coordination.k8s.io/v1",
			"kind":"Lease","metadata":{"name":"put"},"spec":{"holderIdentity":"a","leaseDurationSeconds":15}}`},
		{Name: "the lease", Path: leases + "/put"},
		{Name: "the lease without a version", Method: "PUT", Path: leases + "/put",
			Body: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"put"},"spec":{}}`},
		{Name: "a lease of a version", Method: "PUT", Path: leases + "/versioned",
			Body: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"versioned",
			"resourceVersion":"5"},"spec":{}}`},
		{Name: "an event", Method: "PUT", Path: "/api/v1/${ns}/events/put", Body: `{"apiVersion":"v1","kind":"Event",
			"metadata":{"name":"put"},"involvedObject":{"namespace":"${NS}"},"reason":"Put","type":"Normal"}`},
		{Name: "a config map", Method: "PUT", Path: configMaps + "/put",
			Body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"put"}}`},
	}},
	{Name: "rules-generated-names", Steps: []Step{
		{Name: "too long a base", Method: "POST", Path: configMaps,
			Body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"` + longestName + `"}}`},
		{Name: "a base that is no name", Method: "POST", Path: configMaps,
			Body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"` + longestName + `A-"}}`},
	}},
	{Name: "rules-versions", Steps: []Step{
		{Name: "define", Method: "POST", Path: gadgetsCRD, Body: gadgetsBody},
		{Name: "served", Path: newGadgets, Until: "GadgetList"},
		{Name: "create in the old one", Method: "POST", Path: oldGadgets, Body: `{"apiVersion":"rules.example.com/v1beta1",
			"kind":"Gadget","metadata":{"name":"a"},"spec":{"size":1}}`, Capture: map[string]string{
			"created": "metadata.resourceVersion"}},
		{Name: "read in the new one", Path: newGadgets + "/a"},
		{Name: "create in another than the URL's", Method: "POST", Path: newGadgets,
			Body: `{"apiVersion":"rules.example.com/v1beta1","kind":"Gadget","metadata":{"name":"b"}}`},
		// The name sorts the entries in managedFields as their times do, which may be of one second or of two.
		{Name: "change in the new one", Method: "PATCH", Path: newGadgets + "/a?fieldManager=later", Type: mergePatch,
			Body: `{"spec":{"size":2}}`},
		{Name: "watch in the old one", Path: oldGadgets + "?watch=1&resourceVersion=${created}", Events: 1},
		{Name: "watch in the new one", Path: newGadgets + "?watch=1&resourceVersion=${created}", Events: 1},
		{Name: "list in the old one", Path: oldGadgets},
		{Name: "the group", Path: "/apis/rules.example.com"},
		{Name: "switch the old one off", Method: "PATCH", Accept: asTable,
			Path: gadgetsCRD + "/gadgets.rules.example.com?includeObject=None", Type: jsonPatch,
			Body: `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`},
		{Name: "the old one is gone", Path: oldGadgets, Until: "404"},
		{Name: "watch what is gone", Path: oldGadgets + "?watch=1"},
		{Name: "read in the new one still", Path: newGadgets + "/a"},
		{Name: "switch the one that is stored off", Method: "PATCH", Accept: asTable, Type: jsonPatch,
			Path: gadgetsCRD + "/gadgets.rules.example.com?includeObject=None", Body: `[{"op":"replace","path":"/spec/versions/1/served","value":false}]`},
		{Name: "delete the definition", Method: "DELETE", Accept: asTable,
			Path: gadgetsCRD + "/gadgets.rules.example.com?includeObject=None"},
	}},
}
