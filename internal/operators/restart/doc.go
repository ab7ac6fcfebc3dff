// Package restart is the controller of the RestartTrigger custom resource: when pods of one application are
// replaced, it restarts another one that depends on them, as `kubectl rollout restart` does. It is also `skiff
// restart`, the same without a custom resource ([NewStandalone]).
//
// Its job is to notice what happened to the source pods (notice.go), to decide which target to restart when
// (decide.go), to do that (reconcile.go), and to report it (observe.go). The first, the second and the last are pure
// functions of the trigger's state, the pods, the targets and the time. `skiff restart` is the same reconcile of a
// trigger that is kept elsewhere (standalone.go). It creates and deletes
// nothing, and it rolls nothing out: the cluster's own controllers do, once the annotation of the pod template has
// changed. So it is no operator.Definition, which is about children: a trigger has none, its decisions follow from its
// status, and that is written before what follows from it and not after.
//
// # What survives
//
// All that a decision needs is in the state ([State]): what is known of the source pods, the restart that is
// pending, the one that is under way, the times of past ones. For a RestartTrigger it is in the status, for `skiff
// restart` in an annotation of the first target. It is written before the restart that follows from it, by a write
// that fails if it has changed meanwhile; and the value of the restart annotation is a time that is part of that
// write. So a process that is killed at any point is followed by one that goes on there, and two that run at once
// restart a target once.
//
// # What keeps it from running in circles
//
// Pods of a target never count as source pods. A trigger whose source would match the pods of its own target, or
// whose restarts would come back to it through other triggers, is refused. A target is restarted only when nothing
// else is rolled out on it, never more often than cooldown and budget allow, and no longer once the annotation was
// removed.
//
// # What one namespace can cost or see
//
// Triggers and pods are found by indexes of their mirrors (find.go), so that triggers of other namespaces cost an
// event of a pod nothing. At most 200 triggers of a namespace work, and pods of another namespace are a source only
// where that one allows it (admit.go).
//
// Targets are read when something has to be decided about them, and when their pods change; in between nothing is
// sent.
//
// Place on the event path: it is Reconcile, and runs on the controller's workers; the functions that find triggers
// for a pod run on the goroutines of the mirrors. It starts no goroutine.
package restart
