// Package reload is the controller that restarts workloads when ConfigMaps and Secrets change that their pods have
// read. A Deployment, StatefulSet or DaemonSet opts in by annotations (wants.go); there is no custom resource.
//
// The job is to know what a workload depends on (wants.go) and what its pods run with (state.go), to decide whether and
// when to restart it (decide.go) and whether it is its turn (wave.go), and to restart it and say so (reload.go).
// All but the last are pure functions of objects and the time. As with package restart, nothing is created or
// deleted, and the cluster's own controllers roll out what has a new pod template.
//
// # No value is held
//
// The mirrors of ConfigMaps and Secrets have a digest of 16 bytes for each value (kube.Digests), which is made while
// the value is read. A workload's annotation has 4 bytes of a hash for each source: enough to see a change, and too
// little to confirm what somebody guesses of a long value.
//
// # What survives
//
// The annotation [StateAnnotation] of the workload says what its pods run with. It is written in one request with the
// restart, for the version that was read alone. So a process that is killed at any point, a change of the leader, or a
// day without skiff neither restarts what has not changed nor misses what has. Of a workload seen for the first time,
// the present content is written down and nothing is restarted.
//
// # What one namespace can cost
//
// Sources are found by indexes of the workloads' mirrors, so that a change of a ConfigMap that no workload depends on
// costs a look. Of a namespace and of the cluster a bounded number of workloads rolls at a time (wave.go), and a
// namespace of which none rolls may always begin one: the rollouts of one tenant that never end hold up no other.
//
// # Reloader
//
// A cluster that ran Stakater's Reloader needs no edit: with [Options].Reloader its annotations count beside skiff's
// (theirs.go). Lists have expressions (patterns.go), so that the entries of a workload follow from the sources of the
// namespace (look.go). While a Reloader runs, skiff leaves the annotations to that one.
//
// Place on the event path: the package is Reconcile, on the controllers' workers, one controller for each kind of
// workloads; the functions that find workloads for a source run on the goroutines of the mirrors. No goroutine is
// started.
package reload
