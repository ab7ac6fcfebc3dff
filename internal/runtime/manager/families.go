package manager

import "skiff/internal/runtime/metrics"

// The families that dashboards for controller-runtime and client-go know. Their labels are the same, too.
var (
	reconcileTotal = &metrics.Family{Name: "controller_runtime_reconcile_total", Kind: metrics.CounterKind,
		Help: "Reconciles per controller by result."}
	reconcileErrors = &metrics.Family{Name: "controller_runtime_reconcile_errors_total", Kind: metrics.CounterKind,
		Help: "Reconciles that failed."}
	reconcileTerminal = &metrics.Family{Name: "controller_runtime_terminal_reconcile_errors_total",
		Kind: metrics.CounterKind, Help: "Reconciles that failed with an error that only a change can help."}
	reconcilePanics = &metrics.Family{Name: "controller_runtime_reconcile_panics_total", Kind: metrics.CounterKind,
		Help: "Reconciles that panicked."}
	reconcileTimeouts = &metrics.Family{Name: "controller_runtime_reconcile_timeouts_total",
		Kind: metrics.CounterKind, Help: "Reconciles that failed after their deadline."}
	reconcileTime = &metrics.Family{Name: "controller_runtime_reconcile_time_seconds", Kind: metrics.HistogramKind,
		Help: "How long reconciles took."}
	maxReconciles = &metrics.Family{Name: "controller_runtime_max_concurrent_reconciles", Kind: metrics.GaugeKind,
		Help: "How many reconciles may run at a time."}
	activeWorkers = &metrics.Family{Name: "controller_runtime_active_workers", Kind: metrics.GaugeKind,
		Help: "Reconciles that run now."}

	queueDepth = &metrics.Family{Name: "workqueue_depth", Kind: metrics.GaugeKind,
		Help: "Keys that wait for a worker now, by priority, without those that wait for the end of a delay."}
	queueAdds = &metrics.Family{Name: "workqueue_adds_total", Kind: metrics.CounterKind,
		Help: "Keys that were queued; a key that is queued already is not counted again."}
	queueRetries = &metrics.Family{Name: "workqueue_retries_total", Kind: metrics.CounterKind,
		Help: "Keys that were queued after a delay: retries, and rechecks."}
	queueWait = &metrics.Family{Name: "workqueue_queue_duration_seconds", Kind: metrics.HistogramKind,
		Help: "How long keys waited for a worker."}
	queueWork = &metrics.Family{Name: "workqueue_work_duration_seconds", Kind: metrics.HistogramKind,
		Help: "How long workers took for a key."}
	queueUnfinished = &metrics.Family{Name: "workqueue_unfinished_work_seconds", Kind: metrics.GaugeKind,
		Help: "How long the reconciles that run now have run, together. A large value means a stuck reconcile."}
	queueLongest = &metrics.Family{Name: "workqueue_longest_running_processor_seconds", Kind: metrics.GaugeKind,
		Help: "How long the longest of the reconciles that run now has run."}

	requestsTotal = &metrics.Family{Name: "rest_client_requests_total", Kind: metrics.CounterKind,
		Help: "HTTP requests to the API server by code, method and host."}
	requestRetries = &metrics.Family{Name: "rest_client_request_retries_total", Kind: metrics.CounterKind,
		Help: "HTTP requests that were sent again, by the code of the answer that asked for it."}
	requestTime = &metrics.Family{Name: "rest_client_request_duration_seconds", Kind: metrics.HistogramKind,
		Help: "How long HTTP requests took until the header of their answer, by verb and host."}

	masterStatus = &metrics.Family{Name: "leader_election_master_status", Kind: metrics.GaugeKind,
		Help: "1 while this process leads, 0 while it stands by."}
	slowRenewals = &metrics.Family{Name: "leader_election_slowpath_total", Kind: metrics.CounterKind,
		Help: "Renewals of the lease that had to read it first, because it had been changed."}
)

// The families that only skiff has.
var (
	buildInfo = &metrics.Family{Name: "skiff_build_info", Kind: metrics.GaugeKind,
		Help: "1, with the version and the commit of this binary, and the version of Go."}
	panicsTotal = &metrics.Family{Name: "skiff_panics_total", Kind: metrics.CounterKind,
		Help: "Panics that were contained, by the part of the program; each is in the log."}
	causeTotal = &metrics.Family{Name: "skiff_reconcile_cause_total", Kind: metrics.CounterKind,
		Help: "Reconciles by cause; one with two causes counts for both."}
	failingKeys = &metrics.Family{Name: "skiff_failing_keys", Kind: metrics.GaugeKind,
		Help: "Keys whose last reconcile failed."}
	stalledKeys = &metrics.Family{Name: "skiff_stalled_keys", Kind: metrics.GaugeKind,
		Help: "Failing keys that are tried only every five minutes, or when something changes."}
	delayedKeys = &metrics.Family{Name: "skiff_delayed_keys", Kind: metrics.GaugeKind,
		Help: "Keys that wait for the end of a delay."}
	conflictsTotal = &metrics.Family{Name: "skiff_conflicts_total", Kind: metrics.CounterKind,
		Help: "Writes that were refused because the object had been changed meanwhile, by resource."}
	parked = &metrics.Family{Name: "skiff_parked", Kind: metrics.GaugeKind,
		Help: "1 where a controller does not work on a namespace for this reason; the namespace is empty for all."}

	lastAnswer = &metrics.Family{Name: "skiff_last_answer_timestamp_seconds", Kind: metrics.GaugeKind,
		Help: "When the API server last sent anything, in seconds since 1970; 0: never."}
	unanswered = &metrics.Family{Name: "skiff_unanswered_seconds", Kind: metrics.GaugeKind,
		Help: "For how long requests have waited for an answer that needs the server's storage; 0: none waits."}

	watchActivity = &metrics.Family{Name: "skiff_watch_last_activity_timestamp_seconds", Kind: metrics.GaugeKind,
		Help: "When a watch last had a list, an event, a bookmark or a renewal, in seconds since 1970; 0: never."}
	watchBookmark = &metrics.Family{Name: "skiff_watch_bookmark_age_seconds", Kind: metrics.GaugeKind,
		Help: "How long ago a watch had its last bookmark; absent before the first."}
	watchRestarts = &metrics.Family{Name: "skiff_watch_restarts_total", Kind: metrics.CounterKind,
		Help: "Watches that ended and were renewed, by the reason of the end."}
	watchVersion = &metrics.Family{Name: "skiff_watch_resource_version", Kind: metrics.GaugeKind,
		Help: "The resource version that a mirror has reached; absent where it is no number."}
	cacheLists = &metrics.Family{Name: "skiff_cache_lists_total", Kind: metrics.CounterKind,
		Help: "Full lists by the reason for them."}
	cacheObjects = &metrics.Family{Name: "skiff_cache_objects", Kind: metrics.GaugeKind,
		Help: "Objects in memory."}
	cacheBytes = &metrics.Family{Name: "skiff_cache_bytes", Kind: metrics.GaugeKind,
		Help: "Memory of these objects, estimated."}
	cacheUndecodable = &metrics.Family{Name: "skiff_cache_undecodable_objects", Kind: metrics.GaugeKind,
		Help: "Objects whose newest version does not decode; their last good copy is used."}
	cacheSynced = &metrics.Family{Name: "skiff_cache_synced", Kind: metrics.GaugeKind,
		Help: "1 once all objects have been listed."}
	cacheEvents = &metrics.Family{Name: "skiff_cache_incidents_total", Kind: metrics.CounterKind,
		Help: "What should be rare in a watch, by kind: events that were dropped, rewinds, mass deletes."}
	shedObjects = &metrics.Family{Name: "skiff_shed_objects", Kind: metrics.GaugeKind,
		Help: "Objects that are not worked on because they take too much memory, for the namespaces of a mirror " +
			"that take most; the others share one series."}
	shedBytes = &metrics.Family{Name: "skiff_shed_bytes", Kind: metrics.GaugeKind,
		Help: "Memory that these objects would take, estimated."}
	eventsDropped = &metrics.Family{Name: "skiff_events_dropped_total", Kind: metrics.CounterKind,
		Help: "Kubernetes Events that were not sent: too many, or refused."}
)
