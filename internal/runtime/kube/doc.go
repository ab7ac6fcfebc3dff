// Package kube is the wire: resources and their URLs, one request funnel over net/http, list and watch
// streams, and the API Status as the error type.
//
// It decodes list and watch bodies as a stream, straight into the struct that the caller declares; what is
// not declared is skipped and never allocated. Its job ends there: it keeps no state between calls but
// connections, it does not resume, back off or cache (see package cache), and it does not know where the
// server is or who we are (see package kubeconfig).
//
// It starts no goroutine of its own that outlives a call: Stream.Next runs on the goroutine of its caller,
// the Reflector. On the way of an event it is Watch, which opens the stream, and (*Stream).Next,
// which reads one frame.
package kube
