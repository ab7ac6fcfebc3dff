package cli

import (
	"testing"

	"skiff/internal/testcluster/apiserver"
)

// Rules: LE-03
func TestEachBadFlagOfLeaderElectionIsNamed(t *testing.T) {
	url := newCluster(t, apiserver.Options{}).url()
	for _, tt := range []struct {
		flags []string
		say   string
	}{
		{[]string{"--leader-elect-lease-duration", "0"}, "--leader-elect-lease-duration 0s: must be more than 0"},
		{[]string{"--leader-elect-renew-deadline", "0s"}, "--leader-elect-renew-deadline 0s: must be more than 0"},
		{[]string{"--leader-elect-lease-duration", "1500ms"},
			"--leader-elect-lease-duration 1.5s: want whole seconds, at least 1s"},
		{[]string{"--leader-elect-renew-deadline", "14s"},
			"--leader-elect-lease-duration 15s: must be more than 18.4s (the renew deadline of 14s and 4.4s for a " +
				"retry and its request): otherwise two processes could lead at once"},
		{[]string{"--leader-elect-retry-period", "-1s"}, "--leader-elect-retry-period -1s: must be more than 0"},
		{[]string{"--leader-election-namespace", "No"}, `--leader-election-namespace: "No" is not a valid namespace name`},
		{[]string{"--leader-election-id", "a b"}, `--leader-election-id: "a b" is not a valid name of a Lease`},
	} {
		r := skiff(t, append([]string{"run", "--leader-elect", "--server", url}, tt.flags...)...)
		r.Want(t, ExitUsage, tt.say)
	}
}

// Rules: LE-07
func TestRunWithLeaderElectionTakesTheLeaseAndReleasesItAtTheEnd(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	r := runUntil(t, "leading", "--leader-elect", "--leader-election-id", "mine",
		"--leader-election-namespace", "kube-system", "--controllers", "restart", "--server", c.url())
	r.Want(t, ExitDone, "kube-system/mine", "released the lease")
}
