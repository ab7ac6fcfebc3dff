package kube

import (
	"strconv"
	"strings"
)

// messages has the numbers that the fields of Kubernetes' messages have in protobuf (generated.proto of k8s.io/api and
// k8s.io/apimachinery; a number never changes): of each kind that is read in protobuf, by its apiVersion and name, and
// of the messages in it. A struct that declares a field which is not here is read from JSON.
//
//	name=4             a string
//	name=4:own         a string that hardly two objects have the same
//	name=4:TYPE        int, bool, time, microtime, quantity, map (of strings), bytes (a map of bytes) or a message
//	name=4:[]TYPE      a list
//	name=4*            a pointer: its zero value is another thing than none
//
// No message contains itself, so that what is declared is never nested deeper than this table.
var messages = map[string]string{
	"ObjectMeta": "name=1:own generateName=2 namespace=3 uid=5:own resourceVersion=6:own generation=7:int" +
		" creationTimestamp=8:time deletionTimestamp=9*:time deletionGracePeriodSeconds=10*:int labels=11:map" +
		" annotations=12:map ownerReferences=13:[]OwnerReference finalizers=14:[]string",
	"OwnerReference":           "kind=1 name=3 uid=4 apiVersion=5 controller=6*:bool blockOwnerDeletion=7*:bool",
	"ListMeta":                 "resourceVersion=2 continue=3 remainingItemCount=4*:int",
	"Status":                   "metadata=1:ListMeta status=2 message=3 reason=4 details=5*:StatusDetails code=6:int",
	"StatusDetails":            "name=1 group=2 kind=3 causes=4:[]StatusCause retryAfterSeconds=5:int uid=6",
	"StatusCause":              "reason=1 message=2 field=3",
	"bookmark":                 "metadata=1:ObjectMeta", // of any kind
	"LabelSelector":            "matchLabels=1:map matchExpressions=2:[]LabelSelectorRequirement",
	"LabelSelectorRequirement": "key=1 operator=2 values=3:[]string",

	"v1 ConfigMap":      "metadata=1:ObjectMeta data=2:map binaryData=3:bytes immutable=4*:bool",
	"v1 Namespace":      "metadata=1:ObjectMeta status=3:NamespaceStatus",
	"NamespaceStatus":   "phase=1",
	"v1 Node":           "metadata=1:ObjectMeta spec=2:NodeSpec status=3:NodeStatus",
	"NodeSpec":          "podCIDR=1 providerID=3 unschedulable=4:bool",
	"NodeStatus":        "phase=3 conditions=4:[]NodeCondition",
	"NodeCondition":     "type=1 status=2 lastHeartbeatTime=3:time lastTransitionTime=4:time reason=5 message=6",
	"v1 Secret":         "metadata=1:ObjectMeta data=2:bytes type=3 immutable=5*:bool",
	"v1 ServiceAccount": "metadata=1:ObjectMeta",
	"v1 Service":        "metadata=1:ObjectMeta spec=2:ServiceSpec",
	"ServiceSpec": "ports=1:[]ServicePort selector=2:map clusterIP=3 type=4 sessionAffinity=7 externalName=10" +
		" clusterIPs=18:[]string",
	"ServicePort": "name=1 protocol=2 port=3:int nodePort=5:int",
	"v1 Pod":      "metadata=1:ObjectMeta spec=2:PodSpec status=3:PodStatus",
	"PodSpec":     "restartPolicy=3 nodeSelector=7:map serviceAccountName=8 nodeName=10 priority=25*:int",
	"PodStatus": "phase=1 conditions=2:[]PodCondition message=3 reason=4 hostIP=5 podIP=6:own startTime=7*:time" +
		" containerStatuses=8:[]ContainerStatus qosClass=9 initContainerStatuses=10:[]ContainerStatus" +
		" ephemeralContainerStatuses=13:[]ContainerStatus",
	"PodCondition": "type=1 status=2 lastProbeTime=3:time lastTransitionTime=4:time reason=5 message=6" +
		" observedGeneration=7:int",
	"ContainerStatus": "name=1 state=2:ContainerState lastState=3:ContainerState ready=4:bool restartCount=5:int" +
		" image=6 imageID=7 containerID=8 started=9*:bool",
	"ContainerState": "waiting=1*:ContainerStateWaiting running=2*:ContainerStateRunning" +
		" terminated=3*:ContainerStateTerminated",
	"ContainerStateWaiting": "reason=1 message=2",
	"ContainerStateRunning": "startedAt=1:time",
	"ContainerStateTerminated": "exitCode=1:int signal=2:int reason=3 message=4 startedAt=5:time finishedAt=6:time" +
		" containerID=7",
	"v1 PersistentVolumeClaim": "metadata=1:ObjectMeta spec=2:ClaimSpec status=3:ClaimStatus",
	"ClaimSpec":                "accessModes=1:[]string volumeName=3 storageClassName=5* volumeMode=6*",
	"ClaimStatus":              "phase=1",

	"PodTemplate":        "metadata=1:ObjectMeta spec=2:PodSpec",
	"apps/v1 Deployment": "metadata=1:ObjectMeta spec=2:DeploymentSpec status=3:DeploymentStatus",
	"DeploymentSpec":     "replicas=1*:int selector=2*:LabelSelector template=3:PodTemplate paused=7:bool",
	"DeploymentStatus": "observedGeneration=1:int replicas=2:int updatedReplicas=3:int availableReplicas=4:int" +
		" unavailableReplicas=5:int conditions=6:[]WorkloadCondition readyReplicas=7:int",
	"WorkloadCondition":  "type=1 status=2 reason=4 message=5 lastTransitionTime=7:time",
	"apps/v1 ReplicaSet": "metadata=1:ObjectMeta spec=2:ReplicaSetSpec status=3:ReplicaSetStatus",
	"ReplicaSetSpec":     "replicas=1*:int selector=2*:LabelSelector template=3:PodTemplate minReadySeconds=4:int",
	"ReplicaSetStatus": "replicas=1:int fullyLabeledReplicas=2:int observedGeneration=3:int readyReplicas=4:int" +
		" availableReplicas=5:int",
	"apps/v1 StatefulSet": "metadata=1:ObjectMeta spec=2:StatefulSetSpec status=3:StatefulSetStatus",
	"StatefulSetSpec":     "replicas=1*:int selector=2*:LabelSelector template=3:PodTemplate serviceName=5",
	"StatefulSetStatus": "observedGeneration=1:int replicas=2:int readyReplicas=3:int currentReplicas=4:int" +
		" updatedReplicas=5:int currentRevision=6 updateRevision=7 availableReplicas=11:int",
	"apps/v1 DaemonSet": "metadata=1:ObjectMeta spec=2:DaemonSetSpec status=3:DaemonSetStatus",
	"DaemonSetSpec":     "selector=1*:LabelSelector template=2:PodTemplate",
	"DaemonSetStatus": "currentNumberScheduled=1:int numberMisscheduled=2:int desiredNumberScheduled=3:int" +
		" numberReady=4:int observedGeneration=5:int updatedNumberScheduled=6:int numberAvailable=7:int" +
		" numberUnavailable=8:int",
	"batch/v1 Job": "metadata=1:ObjectMeta status=3:JobStatus",
	"JobStatus": "startTime=2*:time completionTime=3*:time active=4:int succeeded=5:int" +
		" failed=6:int",
	"coordination.k8s.io/v1 Lease": "metadata=1:ObjectMeta spec=2:LeaseSpec",
	"LeaseSpec": "holderIdentity=1* leaseDurationSeconds=2*:int acquireTime=3*:microtime renewTime=4*:microtime" +
		" leaseTransitions=5*:int",
}

// protoNumber is the number of a field in a message, and the type.
type protoNumber struct {
	number  uint64
	pointer bool
	list    bool
	kind    string // string, int ... or the name of a message
}

// numbersOf returns the fields of a message by JSON name, nil for an unknown message.
func numbersOf(message string) map[string]protoNumber {
	out := map[string]protoNumber{}
	for entry := range strings.FieldsSeq(messages[message]) {
		name, rest, _ := strings.Cut(entry, "=")
		number, kind, typed := strings.Cut(rest, ":")
		f := protoNumber{kind: "string"}
		if typed {
			f.kind, f.list = strings.CutPrefix(kind, "[]")
		}
		number, f.pointer = strings.CutSuffix(number, "*")
		f.number, _ = strconv.ParseUint(number, 10, 29) // a test reads the whole table
		out[name] = f
	}
	return out
}
