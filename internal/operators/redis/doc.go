// Package redis is the controller of the Redis custom resource: a number of pods NAME-0, NAME-1 ..., each a Redis
// server of its own on the declared port, behind a headless Service NAME.
//
// Its job is to say what should exist (desired.go) and what was seen (observe.go, fault.go), both pure functions.
// Package apply creates, rolls, replaces and removes the pods, and package operator is the Reconcile around that.
// There is no Deployment or StatefulSet in between. The pods get no storage and are not connected in any way:
// without volumes they are a cache.
//
// Place on the event path: it is called by (*operator.reconciler).Reconcile, on the controller's workers. It
// starts no goroutine.
package redis
