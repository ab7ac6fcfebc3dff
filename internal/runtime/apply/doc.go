// Package apply brings the children of a custom resource to what its operator declares, with no more requests than
// that needs: POST for a child that is missing, server-side apply for one that differs, nothing for one that does
// not.
//
// Its job is the children of one owner, of any kinds, in one call ([Engine.Apply]) and the status of the owner
// ([Statuses.Write]). Nothing in it needs a Go type per kind. What is desired is the operator's, a pure function of
// the custom resource; when a reconcile runs is the controller's; what the cluster looks like comes from the cache,
// and package patch compares.
//
// # How a call goes
//
// [Engine.Apply] makes a [child] of each that is declared, and of each other one that the owner has. It observes them
// once: from the cache, from the answer to the last write, from the server where neither says. Then the [Strategy] of
// each kind plans steps about all children of that kind, and the engine has it take them: those about independent
// children side by side, those about children of one template in growing batches that stop at a failure, and the
// removal of what is not declared when all else is in place.
//
// A strategy decides; it has no other way to find, create, adopt, release or delete a child, and no memory. One
// that deletes what it cannot change, or changes one child after the other, plans other steps (see recreate_test.go).
//
// # How a child is written
//
// Children are created by POST, because POST is the only request that creates and nothing else: an apply onto a
// foreign object of the same name takes it over without an error. An existing child is changed by apply alone, so
// that fields that others set (an autoscaler's replicas, an injected sidecar, the annotation of `kubectl rollout
// restart`) are never touched. Each child carries a hash of its desired state as an annotation, a declared field like
// any other: so a field that is declared no longer is a difference too, and the apply that follows removes it.
//
// Two things have to happen before an apply. After a POST the server has our fields
// down as an Update, and fields that we stop declaring would survive an apply because that entry still owns them; so
// that entry is turned into an Apply first. And a field that must keep its value when it is declared no longer
// ([Child.Keep]) is handed over to a second field manager first, because it would fall to the server's default.
//
// # How a child is replaced
//
// Pods, and other kinds that cannot be changed, are deleted and created again ([Replace]). Missing ones are created
// at once. A roll goes from the last declared one to the first and stops at one that does not become ready; a new
// template is tried by a dry run before the first old child goes. Surplus ones go one at a time. A name is never used
// twice because POST only creates; DELETE names the uid that the decision was about, so it never hits another object.
// One that ends again and again is replaced as a kubelet restarts a container: at once, then after 10 s, doubling to
// 5 min. See [plan] and [crashLoop].
//
// # Stale caches
//
// The cache learns of our own write a moment after its answer. Until it has (Store.Reached), the answer stands in for
// the cached copy, so that no reconcile acts on what it has itself made obsolete, and no status says so. This trust
// ends after a few seconds: then a live read decides. See [written].
//
// Place on the event path: inside Reconcile, on the worker's goroutine. The package starts none.
package apply
