// Package redis is the controller of the Redis custom resource: a number of pods NAME-0, NAME-1 ..., each a Redis
// server of its own on the declared port, behind a headless Service NAME.
//
// Its job is to say what should exist (desired.go), to compare that with what is there and choose the next steps
// (plan.go), to take them (pods.go), and to report what was seen (observe.go). The first, the second and the last
// are pure functions. There is no Deployment or StatefulSet in between: the pods are its own, so it has to do what
// those would do. It gives them no storage and connects them in no way: without volumes they are a cache.
//
// # What keeps it safe
//
// A pod's name follows from its ordinal, and POST creates and nothing else; so however old the cache is, there is
// never a second pod. DELETE names the uid that the decision was about; so it never hits another pod than that one.
// Only pods whose controller is this very Redis, by uid, are counted, changed or deleted. Nothing but the objects
// themselves is needed to go on from any point where the process was killed; what is remembered (memory.go) only
// saves requests and patience.
//
// Place on the event path: it is function 9, Reconcile, and runs on the controller's workers. It starts no goroutine.
package redis
