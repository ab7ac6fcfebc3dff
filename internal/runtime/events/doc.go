// Package events reports what a controller did, as Kubernetes Events (events.k8s.io/v1, KEP-383) that
// `kubectl describe` and `kubectl events` show.
//
// Recording never blocks or fails a reconcile: Record puts the event into a bounded queue and returns; what
// does not fit is dropped and counted. Sending is the job of one goroutine, which the caller of Run owns.
// Events with the same note become one Event with a series, so that a loop that says the same thing a thousand times
// costs two requests; different ones about one object are limited in number. It is not on the path of a watch event:
// operators call it in Reconcile, and it reads nothing back.
package events
