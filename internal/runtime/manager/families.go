package manager

import "skiff/internal/runtime/metrics"

// The families that dashboards for controller-runtime and client-go know, with the same labels.
var (
	reconcileTotal    = counter("controller_runtime_reconcile_total", "Reconciles per controller by result.")
	reconcileErrors   = counter("controller_runtime_reconcile_errors_total", "Reconciles that failed.")
	reconcileTerminal = counter("controller_runtime_terminal_reconcile_errors_total",
		"Reconciles that failed with an error that only a change can help.")
	reconcilePanics   = counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.")
	reconcileTimeouts = counter("controller_runtime_reconcile_timeouts_total",
		"Reconciles that failed after their deadline.")
	reconcileTime = histogram("controller_runtime_reconcile_time_seconds", "How long reconciles took.")
	maxReconciles = gauge("controller_runtime_max_concurrent_reconciles", "How many reconciles may run at a time.")
	activeWorkers = gauge("controller_runtime_active_workers", "Reconciles that run now.")

	queueDepth = gauge("workqueue_depth",
		"Keys that wait for a worker now, by priority, without those that wait for the end of a delay.")
	queueAdds = counter("workqueue_adds_total",
		"Keys that were queued; a key that is queued already is not counted again.")
	queueRetries    = counter("workqueue_retries_total", "Keys that were queued after a delay: retries, and rechecks.")
	queueWait       = histogram("workqueue_queue_duration_seconds", "How long keys waited for a worker.")
	queueWork       = histogram("workqueue_work_duration_seconds", "How long workers took for a key.")
	queueUnfinished = gauge("workqueue_unfinished_work_seconds",
		"How long the reconciles that run now have run, together. A large value means a stuck reconcile.")
	queueLongest = gauge("workqueue_longest_running_processor_seconds",
		"How long the longest of the reconciles that run now has run.")

	requestsTotal  = counter("rest_client_requests_total", "HTTP requests to the API server by code, method and host.")
	requestRetries = counter("rest_client_request_retries_total",
		"HTTP requests that were sent again, by the code of the answer that asked for it.")
	requestTime = histogram("rest_client_request_duration_seconds",
		"How long HTTP requests took until the header of their answer, by verb and host.")

	masterStatus = gauge("leader_election_master_status", "1 while this process leads, 0 while it stands by.")
	slowRenewals = counter("leader_election_slowpath_total",
		"Renewals of the lease that had to read it first, because it had been changed.")
)

// The families that only skiff has.
var (
	buildInfo = gauge("skiff_build_info",
		"1, with the version and the commit of this binary, and the version of Go.")
	panicsTotal = counter("skiff_panics_total",
		"Panics that were contained, by the part of the program; each is in the log.")
	causeTotal  = counter("skiff_reconcile_cause_total", "Reconciles by cause; one with two causes counts for both.")
	failingKeys = gauge("skiff_failing_keys", "Keys whose last reconcile failed.")
	stalledKeys = gauge("skiff_stalled_keys",
		"Failing keys that are tried only every five minutes, or when something changes.")
	problemObjects = gauge("skiff_problem_objects",
		"Objects with a problem that their last reconcile has found, by its reason, whether or not it ends by itself.")
	delayedKeys    = gauge("skiff_delayed_keys", "Keys that wait for the end of a delay.")
	conflictsTotal = counter("skiff_conflicts_total",
		"Writes that were refused because the object had been changed meanwhile, by resource.")
	parked = gauge("skiff_parked",
		"1 where a controller does not work on a namespace for this reason; the namespace is empty for all.")

	noProgress = gauge("skiff_no_progress_seconds",
		"For how long the workers of a controller have begun and ended nothing although keys were due.")
	lastAnswer = gauge("skiff_last_answer_timestamp_seconds",
		"When the API server last sent anything, in seconds since 1970; 0: never.")
	unanswered = gauge("skiff_unanswered_seconds",
		"For how long requests have waited for an answer that needs the server's storage; 0: none waits.")

	watchActivity = gauge("skiff_watch_last_activity_timestamp_seconds",
		"When a watch last had a list, an event, a bookmark or a renewal, in seconds since 1970; 0: never.")
	watchBookmark = gauge("skiff_watch_bookmark_age_seconds",
		"How long ago a watch had its last bookmark; absent before the first.")
	watchRestarts = counter("skiff_watch_restarts_total",
		"Watches that ended and were renewed, by the reason of the end.")
	watchVersion = gauge("skiff_watch_resource_version",
		"The resource version that a mirror has reached; absent where it is no number.")
	cacheLists       = counter("skiff_cache_lists_total", "Full lists by the reason for them.")
	cacheObjects     = gauge("skiff_cache_objects", "Objects in memory.")
	cacheBytes       = gauge("skiff_cache_bytes", "Memory of these objects, estimated.")
	cacheUndecodable = gauge("skiff_cache_undecodable_objects",
		"Objects whose newest version does not decode; their last good copy is used.")
	cacheSynced = gauge("skiff_cache_synced", "1 once all objects have been listed.")
	cacheEvents = counter("skiff_cache_incidents_total",
		"What should be rare in a watch, by kind: events that were dropped, rewinds, mass deletes.")
	shedObjects = gauge("skiff_shed_objects",
		"Objects that are not worked on because they take too much memory, for the namespaces of a mirror that "+
			"take most; the others share one series.")
	shedBytes     = gauge("skiff_shed_bytes", "Memory that these objects would take, estimated.")
	logDropped    = counter("skiff_log_lines_dropped_total", "Lines of the log that stderr did not take in time.")
	eventsDropped = counter("skiff_events_dropped_total",
		"Kubernetes Events that were not sent: too many, or refused.")
)

func counter(name, help string) *metrics.Family {
	return &metrics.Family{Name: name, Kind: metrics.CounterKind, Help: help}
}

func gauge(name, help string) *metrics.Family {
	return &metrics.Family{Name: name, Kind: metrics.GaugeKind, Help: help}
}

func histogram(name, help string) *metrics.Family {
	return &metrics.Family{Name: name, Kind: metrics.HistogramKind, Help: help}
}
