package cli

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
)

// electionRights are what --leader-elect needs in the namespace of the Lease.
var electionRights = append(slices.Clip(leader.Rights), events.Rights...)

// The names of the Leases, unless --leader-election-id gives another, and the namespace that skiff is installed in
// unless -n gives one.
const programLease, hooksLease, home = "skiff", "skiff-hooks", "skiff"

// electionFlags are the flags of leader election, with the usual names of controller managers.
type electionFlags struct {
	on                  bool
	namespace, id       string
	lease, renew, retry time.Duration
}

// add adds the flags. id is the default name of the Lease: two programs with one Lease would wait for each other.
func (f *electionFlags) add(cmd *cobra.Command, id string) {
	fs := cmd.Flags()
	fs.BoolVar(&f.on, "leader-elect", false,
		"work only while this process holds a Lease; the other replicas stand by with up-to-date caches")
	fs.StringVar(&f.namespace, "leader-election-namespace", "",
		"`namespace` of the Lease (default: that of the kubeconfig context or the pod)")
	fs.StringVar(&f.id, "leader-election-id", id, "`name` of the Lease")
	fs.DurationVar(&f.lease, "leader-elect-lease-duration", leader.DefaultLeaseDuration,
		"how long the standbys wait after the last renewal before one takes over; whole seconds")
	fs.DurationVar(&f.renew, "leader-elect-renew-deadline", leader.DefaultRenewDeadline,
		"how long the leader works on after its last renewal")
	fs.DurationVar(&f.retry, "leader-elect-retry-period", leader.DefaultRetryPeriod, "how often the leader renews")
	InGroup(cmd, groupControllers, "leader-elect", "leader-election-namespace")
	InGroup(cmd, GroupAdvanced, "leader-election-id", "leader-elect-lease-duration", "leader-elect-renew-deadline",
		"leader-elect-retry-period")
}

// elector checks the flags, also without --leader-elect, and returns nil then. The client of an Elector has
// connections for leases only, so that a renewal never waits behind other requests; done closes the connections. check
// is the command that prints the missing rights of a user, for the same work without --leader-elect.
func (f *electionFlags) elector(cfg kube.Config, namespace string, check func(user string) string,
	log logr.Logger) (e *leader.Elector, done func(), err error) {
	o := leader.Options{Advice: f.advice(cmp.Or(f.namespace, namespace), check),
		Namespace: cmp.Or(f.namespace, namespace), Name: f.id, LeaseDuration: f.lease,
		RenewDeadline: f.renew, RetryPeriod: f.retry, Log: log}
	if !namespaceName().MatchString(o.Namespace) {
		return nil, nil, Usagef("--leader-election-namespace: %q is not a valid namespace name", o.Namespace)
	}
	if !kube.ValidName(f.id) {
		return nil, nil, Usagef("--leader-election-id: %q is not a valid name of a Lease", f.id)
	}
	for flag, d := range map[string]time.Duration{"lease-duration": f.lease, "renew-deadline": f.renew,
		"retry-period": f.retry} {
		if d == 0 {
			return nil, nil, Usagef("--leader-elect-%s 0s: must be more than 0", flag)
		}
	}
	if err := o.Check(); err != nil {
		return nil, nil, usageError{flagOf(err)}
	}
	if !f.on {
		return nil, func() {}, nil
	}
	if o.Client, err = kube.New(cfg); err != nil {
		return nil, nil, err
	}
	if e, err = leader.New(o); err != nil {
		return nil, nil, err
	}
	return e, o.Client.Close, nil
}

// advice is the next step after an error of leader election: for a missing right, the command for an administrator to
// paste, with the rights of this skiff's controllers and namespaces and no more.
func (f *electionFlags) advice(namespace string, check func(user string) string) func(error) string {
	return func(err error) string {
		user := kube.ForbiddenUser(err)
		if user == "" {
			return ""
		}
		return grantedBy(check(user) + " --leader-elect --leader-election-namespace " + namespace)
	}
}
