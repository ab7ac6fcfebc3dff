// Package webserver is the controller of the WebServer custom resource: an image and a number of pods become a
// Deployment NAME and a Service NAME-service, which are created again when they are deleted.
//
// All of it is pure: desired.go says what should exist, and observe.go what the status of that is. Package operator
// does the rest. It creates no pods: the cluster's Deployment controller does.
//
// Place on the event path: inside (*operator.reconciler).Reconcile, on the controller's workers. It starts no
// goroutine.
package webserver
