package e2e

const (
	handMadeEndpoints = `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"hand","labels":{"a":"b"}},
		"subsets":[{"notReadyAddresses":[{"ip":"192.0.2.8","hostname":"h"}],"ports":[{"port":1}]},
		{"addresses":[{"ip":"2001:db8::1"}],"ports":[{"name":"p","port":2,"protocol":"UDP"}]}]}`
	slicesOfHand = "get endpointslices -l kubernetes.io/service-name=hand --sort-by=.addressType -o custom-columns=" +
		"L:.metadata.labels,O:.metadata.ownerReferences[*].kind,A:.addressType,P:.ports,E:.endpoints," +
		"N:.metadata.generateName"
	claimColumns = " -o custom-columns=N:.metadata.name,P:.status.phase,V:.spec.volumeName,C:.status.capacity," +
		"M:.status.accessModes,F:.metadata.finalizers,A:.metadata.annotations.pv\\.kubernetes\\.io/bind-completed"
	volumeColumns = " -o custom-columns=N:.metadata.name,P:.status.phase,C:.spec.claimRef.name," +
		"F:.metadata.finalizers,A:.metadata.annotations.pv\\.kubernetes\\.io/bound-by-controller"
)

func volumeLine(name, class, size string) kubectlLine {
	return kubectlLine{args: "create -f -", stdin: `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{
		"name":"` + name + `","labels":{"of":"lines"}},"spec":{"capacity":{"storage":"` + size + `"},
		"storageClassName":"` + class + `","accessModes":["ReadWriteOnce","ReadOnlyMany"],"hostPath":{"path":"/a"}}}`}
}

func claimLine(name, class, size string) kubectlLine {
	return kubectlLine{args: "create -f -", stdin: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{
		"name":"` + name + `"},"spec":{"resources":{"requests":{"storage":"` + size + `"}},
		"storageClassName":"` + class + `","accessModes":["ReadWriteOnce"]}}`}
}

// storageLines are about claims and volumes, and about the slices of Endpoints that users write.
var storageLines = []kubectlLine{
	{args: "create -f -", stdin: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"hand"},"spec":{"ports":[
		{"port":80}]}}`},
	{args: "create -f -", stdin: handMadeEndpoints},
	{args: "wait --for=jsonpath={.status.never} service/hand --timeout=3s"}, // the slices have no names to wait for
	{args: slicesOfHand},
	{args: "delete service hand"},
	{args: "wait --for=delete endpoints/hand --timeout=1m"},
	{args: "wait --for=delete endpointslice -l kubernetes.io/service-name=hand --timeout=1m"},

	{args: "apply -f -", stdin: `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{
		"name":"lines-wait"},"provisioner":"example.com/none","volumeBindingMode":"WaitForFirstConsumer"}`},
	volumeLine("lines-small", "lines", "1Gi"), volumeLine("lines-large", "lines", "9Gi"),
	volumeLine("lines-medium", "lines", "5Gi"), volumeLine("lines-waits", "lines-wait", "5Gi"),
	{args: "wait --for=jsonpath={.status.phase}=Available persistentvolume -l of=lines --timeout=1m"},
	claimLine("bound", "lines", "3Gi"), claimLine("large", "lines", "30Gi"), claimLine("waits", "lines-wait", "1Gi"),
	{args: "wait --for=jsonpath={.status.phase}=Bound persistentvolumeclaim/bound --timeout=1m"},
	{args: "get persistentvolumeclaims bound large waits" + claimColumns},
	{args: "get persistentvolumes -l of=lines" + volumeColumns},
	{args: "create -f -", stdin: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"user"},"spec":{
		"terminationGracePeriodSeconds":1,"containers":[{"name":"c","image":"i"}],"volumes":[
		{"name":"a","persistentVolumeClaim":{"claimName":"bound"}},
		{"name":"b","persistentVolumeClaim":{"claimName":"waits"}}]}}`},
	{args: "wait --for=condition=Ready pod/user --timeout=1m"},
	{args: "wait --for=jsonpath={.status.phase}=Bound persistentvolumeclaim/waits --timeout=1m"},
	{args: "get persistentvolumeclaims waits" + claimColumns},
	{args: "delete persistentvolumeclaim bound --wait=false"},
	{args: "delete persistentvolume lines-medium --wait=false"},
	{args: "get persistentvolumeclaims bound" + claimColumns},
	{args: "get persistentvolumes lines-medium" + volumeColumns},
	{args: "delete pod user"},
	{args: "wait --for=delete persistentvolumeclaim/bound persistentvolume/lines-medium --timeout=1m"},
	{args: "delete persistentvolumeclaim waits"},
	{args: "wait --for=jsonpath={.status.phase}=Released persistentvolume/lines-waits --timeout=1m"},
	{args: "get persistentvolumes -l of=lines" + volumeColumns},
	{args: eventsOf("PersistentVolumeClaim", "large")},
	{args: "delete persistentvolume -l of=lines"},
}
