// Package restart is the controller of the RestartTrigger custom resource: when pods of one application are
// replaced, or ConfigMaps and Secrets change, the controller restarts another application that depends on those, as
// `kubectl rollout restart` does. Package restart is also `skiff restart`, the same without a custom resource
// ([NewStandalone]).
//
// The job is to notice changes of the source pods (notice.go) and of ConfigMaps and Secrets (config.go), to decide
// which target to restart when (decide.go), to restart (reconcile.go), and to report (observe.go). Noticing,
// deciding and reporting are pure functions of the trigger's state, the pods, the targets and the time. `skiff
// restart` is the same reconcile of a trigger that is kept elsewhere (standalone.go). The controller creates and
// deletes nothing, and rolls nothing out: the cluster's own controllers do, once the annotation of the pod template
// has changed. So there is no operator.Definition, which is about children: a trigger has no children, decisions
// follow from the status, and the status is written before the restart and not after.
//
// # What survives
//
// All input of a decision is in the state ([State]): the known sources, the pending restart, the restart under way,
// the times of past restarts. For a RestartTrigger the state is in the status, for `skiff restart` in an annotation
// of the first target. The state is written before the restart that follows from the state, by a write that fails
// after a change by somebody else; and the value of the restart annotation is a time in that write. So a process
// that is killed at any point has a successor that goes on there, and two processes at once restart a target once.
//
// # Why there are no circles
//
// Pods of a target never count as source pods. A trigger whose source would match the pods of its own target, or whose
// restarts would come back through other triggers, is refused. A target is restarted only when nothing else is rolled
// out there, never more often than cooldown and budget allow, and no longer once the annotation was removed.
//
// # What one namespace can cost or see
//
// Triggers and pods are found by indexes of the mirrors (find.go), so that triggers of other namespaces cost an event
// of a pod nothing. At most 200 triggers of a namespace work, and pods of another namespace are a source only where
// the other namespace allows that (admit.go).
//
// ConfigMaps and Secrets are those of the trigger's namespace. They are mirrored without values (package sources), and
// only where [Sources] says so.
//
// Targets are read when a decision is due, and when the targets' pods change; in between nothing is sent.
//
// Place on the event path: the package is Reconcile, on the controller's workers; the functions that find triggers for
// a pod run on the goroutines of the mirrors. No goroutine is started.
package restart
