// Package jsonpatch applies JSON patches (RFC 6902) and JSON merge patches (RFC 7386) to decoded JSON, as the API
// server does. Strategic merge patches and the form of values are package patch's. Its name is in messages of the real
// server's decoder ("Go value of type jsonpatch.Patch"), which are those of this one, too.
//
// Its functions are pure: they change none of their arguments, keep no state and run on the goroutine of their caller,
// a request of the embedded server. Nothing of skiff's controllers imports it.
package jsonpatch
