// Package queue is the work queue between the watches and the workers: it holds keys, never objects, so that
// a worker reads the latest state when it starts and a thousand changes of one object cost one run.
//
// Its job is to decide which key runs next and when: one run per key at a time, one pending run per key at most,
// delays, backoff per key, two lanes, turns of the namespaces, and the causes of each run. It does not know what a
// run does, what an error means or how many workers there are (see package controller), and it has no limit over all
// keys: a key's delay depends on its own failures only, so a mass failure never holds up an unrelated key.
//
// It runs on the goroutines of its callers, under one mutex: Reflectors call Add, workers call the rest. The
// earliest delay is one timer, whose function runs for an instant when it is due. On the way of an event
// (*Queue).Add and Get are the only hand-over between the two goroutines.
package queue
