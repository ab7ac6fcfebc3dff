// Package e2e runs skiff, as a user would, against a real Kubernetes control plane on loopback.
//
// Its job: build etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok from the versions in go.mod,
// start them in seconds, and check through kubectl and plain REST what the cluster has after skiff acted. Next to
// the stories stands the differential test: one request script, run against the real server and against
// skiff's embedded one, must give equal answers.
//
// Not its job: unit tests of skiff's packages (they live beside the code and use virtual time). The figures of `make
// figures` are taken here, on request only, because here is the control plane to take them on.
//
// It is a nested module, so that none of what the control plane needs shows up in skiff's own go.mod. Nothing here is
// on the event path; the only skiff code that it imports is the embedded API server and its simulated nodes, for
// comparisons.
//
// The layout, one job per file: build.go makes the binaries once per version; group.go owns processes and makes sure
// that none outlives the test; cluster.go, apiserver.go and controllers.go start the control plane; access.go holds
// users, kubeconfigs and grants; api.go, command.go, audit.go and skiff.go are what tests talk to; wait.go and
// scope.go keep tests short; memorygroup.go limits a program and reads what it costs; faultproxy.go and hostile.go are
// bad networks and servers; testdata has the requests of the differential tests.
package e2e
