// Package apply brings the children of a custom resource to the state declared by the operator, with as few requests
// as possible: POST for a missing child, server-side apply for a child that differs, nothing for a child in sync.
//
// The package's job is the children of one owner, of any kinds, in one call ([Engine.Apply]) and the status of the
// owner ([Statuses.Write]). No kind needs a Go type. The desired state is the operator's, a pure function of the
// custom resource; when a reconcile runs is the controller's; the state of the cluster comes from the cache, and
// package patch compares.
//
// # How a call goes
//
// [Engine.Apply] makes a [child] of each declared child, and of each other child of the owner. The children are
// observed: in the cache, in the answer to the last write, on the server where neither says (observe.go). Then the
// [Strategy] of each kind decides on the next steps about all children of the kind (decide.go), and the engine takes
// the steps (do.go): independent children side by side, children of one template in growing batches up to a failure,
// and removals of undeclared children when all else is in place.
//
// A decision sends nothing: a [step] is a value, made from the observed children and from the engine's memory. Some
// steps ask the server before the write, and end otherwise: a child is gone with its owner, a dry run shows that no
// child has to be recreated, an object does not fit to be adopted, a POST meets an object and asks the strategy again.
//
// # How a child is written
//
// Children are created by POST, the only request that creates and nothing else: an apply onto a foreign object of the
// same name takes the object over without an error. An existing child is changed by apply alone, so fields set by
// other clients (an autoscaler's replicas, an injected sidecar, the annotation of `kubectl rollout restart`) are never
// touched. Each child carries a hash of its desired state as an annotation, a declared field like any other: so a
// field no longer declared is a difference too, and the next apply removes the field.
//
// Two things have to happen before an apply. After a POST the server has our fields down as an Update, and a field no
// longer declared would survive an apply because the Update still owns it; so the Update is turned into an Apply
// first. And a field that must keep its value when no longer declared ([Child.Keep]) is handed over to a second field
// manager first, because the server would reset the field to the default.
//
// # How a child is replaced
//
// Pods, and other kinds that cannot be changed, are deleted and created again ([Replace]). Missing children are
// created at once. A roll goes from the last declared child to the first and stops at a child that does not become
// ready; a new template is tried by a dry run before the first old child goes. Surplus children go singly. A name is
// never used twice because POST only creates; DELETE names the uid of the observed child, and never hits another
// object. A child that ends again and again is replaced as a kubelet restarts a container: at once, then after 10 s,
// doubling to 5 min. See [plan] and [crashLoop].
//
// # Children outside the cache
//
// A child that takes too much memory, or is in such a namespace, exists and is not held by the cache
// (cache.NotServed). Only a change of the owner makes such a child smaller, so the change must reach the child: by one
// apply per generation of the owner, or with Options.Unheld compared with a copy read from the server.
//
// # Stale caches
//
// The cache learns of our own write a moment after the answer. Until then (Store.Reached), the answer stands in for
// the cached copy, so that no reconcile acts on, and no status shows, a state made obsolete by our own write. The
// trust in the answer ends after a few seconds: then a live read decides. See [written].
//
// Place on the event path: inside Reconcile, on the worker's goroutine. Goroutines for independent children end with
// the call.
package apply
