// Package webserver is the controller of the WebServer custom resource: an image and a number of pods become a Deployment
// NAME and a Service NAME-service on a port of every node, and come back when they go.
//
// Its job is to say what should exist (desired.go, a pure function), to have package apply make it so (reconcile.go), to
// report what was seen (observe.go, a pure function as well), and to tell of it in Events (announce.go). It creates no
// pods: the cluster's Deployment controller does. It deletes nothing: the children carry an owner reference, and the
// garbage collector follows it.
//
// Place on the event path: it is function 9, Reconcile, and runs on the controller's workers. It starts no goroutine.
package webserver
