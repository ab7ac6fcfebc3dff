// Package reload is the controller for ConfigMaps and Secrets: when a source changes, the controller restarts the
// workloads whose pods have read the source. A Deployment, StatefulSet, DaemonSet or Rollout of Argo (rollout.go) opts
// in by annotations (wants.go); there is no custom resource. `skiff reload` works by flags (standalone.go).
//
// The job is to know the sources of a workload (wants.go) and the content with which the pods run (state.go), to
// decide when to restart (decide.go) and whose turn comes (wave.go), to restart, and to say so (reload.go). All but
// the last are pure functions of objects and the time. As with package restart, nothing is created or deleted, and
// the cluster's own controllers roll out a new pod template.
//
// # No value is held
//
// The mirrors of ConfigMaps and Secrets have a digest of 16 bytes for each value (kube.Digests), made while the value
// is read. A workload's annotation has 4 bytes of a hash for each source: enough to see a change, and too little to
// confirm a guess of a long value.
//
// # A restart of the process
//
// The annotation [StateAnnotation] of a workload names the content with which the pods run. The annotation is written
// in one request with the restart, for no other version than was read. So a process killed at any point, a change of
// the leader, or a day without skiff neither restarts an unchanged workload nor misses a change. When a workload is
// seen for the first time, the present content is written down and nothing is restarted.
//
// A `skiff reload` with targets has an annotation and a field manager of its own, both named by a hash over the
// sources of the flags. So processes with other sources on one workload leave each other's entries alone, and each
// takes a rollout that another has begun after a change as enough.
//
// # The cost of a namespace
//
// Sources are found by indexes of the workloads' mirrors, so a change of a ConfigMap without dependents costs a look.
// In a namespace, and in the cluster, a bounded number of workloads rolls at a time (wave.go). A namespace where none
// rolls may always begin: endless rollouts of a tenant hold up nobody else.
//
// # Reloader
//
// A cluster that ran Stakater's Reloader needs no edit: with [Options].Reloader the annotations of Reloader count
// beside skiff's (theirs.go). Lists have expressions (patterns.go), so the entries of a workload follow from the
// sources of the namespace (look.go). While a Reloader runs, skiff restarts a workload only when Reloader has not.
//
// # Before the start
//
// [Look] says for which sources the workloads of a cluster would restart, and which annotations do not count
// (survey.go, typing.go): to a server, a misspelt annotation is no error, and a restart that does not come is noticed
// too late. Look runs on the goroutine of `skiff check`, apart from the controllers.
//
// Place on the event path: the package is Reconcile, on the controllers' workers, with a controller for each kind of
// workloads; the functions that find the workloads of a source run on the goroutines of the mirrors. No goroutine is
// started.
package reload
