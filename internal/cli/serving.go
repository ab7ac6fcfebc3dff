package cli

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/operators/restart"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/manager"
)

// servingFlags are those of all commands that run controllers: what a process shows of itself, and how long a watch
// may be silent.
type servingFlags struct {
	health, metrics, debug, page   string // addresses; "0": none
	pageHosts                      []string
	pageToken                      string // the file with it; "": none
	pageOpened                     func(url string)
	found                          bool // no flag was given: the probes are served where `skiff status` finds them
	watchTimeout, watchIdleTimeout time.Duration
	pageOpen                       bool // its readers may see all that there is
}

func (f *servingFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	if f.health = "0"; f.found {
		f.health = defaultProbes
	}
	fs.StringVar(&f.health, "health-probe-bind-address", f.health,
		"`host:port` for /healthz, /readyz and 'skiff status'; 0 disables them")
	fs.StringVar(&f.metrics, "metrics-bind-address", "0",
		"`host:port` for /metrics; 0 disables it")
	fs.StringVar(&f.debug, "pprof-bind-address", "0",
		"`host:port` for /debug/pprof/ and /debug/controllers; 0 disables them, :PORT listens on the loopback "+
			"address only")
	fs.StringVar(&f.page, "debug-bind-address", cmp.Or(f.page, "0"),
		"`host:port` for the live page; 0 disables it, :PORT listens on the loopback address only")
	ListVar(cmd, &f.pageHosts, "debug-allowed-hosts", nil,
		"`names` by which browsers may ask for the live page, beside localhost and addresses")
	fs.StringVar(&f.pageToken, "debug-token-file", "",
		"`file` with the token that readers of the live page need; without it, the page is served on the loopback "+
			"address only, and shows no text that may repeat an object")
	fs.DurationVar(&f.watchTimeout, "watch-liveness-timeout", manager.DefaultWatchTimeout,
		"/livez/watch fails when a watch has had no event, bookmark or renewal for this long")
	fs.DurationVar(&f.watchIdleTimeout, "watch-idle-timeout", 0,
		"reconnect a watch that has received nothing for this long; each reconnect of an idle resource costs one "+
			"request (default: slightly longer than a watch lasts)")
	InGroup(cmd, GroupServing, "health-probe-bind-address", "metrics-bind-address", "debug-bind-address",
		"debug-token-file")
	InGroup(cmd, GroupAdvanced, "debug-allowed-hosts", "pprof-bind-address", "watch-liveness-timeout",
		"watch-idle-timeout")
}

// ServePage serves the live page, on a free port of this machine, unless a flag says otherwise, of a cluster in which
// nothing is secret. It is for before add.
func (f *servingFlags) ServePage() { f.page, f.pageOpen = "127.0.0.1:0", true }

// ServeProbes serves the probes where `skiff status` finds them, unless a flag says otherwise. It is for before Add.
func (f *servingFlags) ServeProbes() { f.found = true }

// OnPage has opened called with the URL of the live page as soon as the page is served. The result is whether a page
// will be served.
func (f *servingFlags) OnPage(opened func(url string)) bool {
	f.pageOpened = opened
	return f.page != "" && f.page != "0"
}

func (f *servingFlags) check() error {
	for _, address := range []struct{ flag, value string }{
		{"--health-probe-bind-address", f.health},
		{"--metrics-bind-address", f.metrics},
		{"--pprof-bind-address", f.debug},
		{"--debug-bind-address", f.page},
	} {
		if err := CheckAddress(address.flag, address.value); err != nil {
			return err
		}
	}
	if err := f.checkPage(); err != nil {
		return err
	}
	if f.watchIdleTimeout < 0 {
		return Usagef("--watch-idle-timeout %s: must not be negative", f.watchIdleTimeout)
	}
	if least := max(leastWatchTimeout, f.watchIdleTimeout+time.Minute); f.watchTimeout < least {
		return Usagef("--watch-liveness-timeout %s: must be at least %s, within which each watch is renewed",
			f.watchTimeout, least)
	}
	return nil
}

// checkPage refuses to show the live page to others without a token.
func (f *servingFlags) checkPage() error {
	for _, host := range f.pageHosts {
		if !kube.ValidName(host) {
			return Usagef("--debug-allowed-hosts %q: want host names without a port", host)
		}
	}
	if f.pageToken != "" {
		if _, err := kubeconfig.ReadToken(f.pageToken); err != nil {
			return Usagef("--debug-token-file: %w", err)
		}
		return nil
	}
	if f.page == "" || f.page == "0" {
		return nil
	}
	host, _, _ := net.SplitHostPort(loopback(f.page))
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return Usagef("--debug-bind-address %s: others could read the page there: give --debug-token-file, or a "+
			"loopback address", f.page)
	}
	return nil
}

// options returns what the manager needs of the flags.
func (f *servingFlags) options(o manager.Options) manager.Options {
	o.HealthAddr, o.MetricsAddr, o.DebugAddr, o.WatchTimeout = f.health, f.metrics, loopback(f.debug), f.watchTimeout
	o.PageAddr, o.PageHosts, o.PageOpened = loopback(f.page), f.pageHosts, f.pageOpened
	o.PageOpen = f.pageOpen
	if f.pageToken != "" {
		o.PageToken = func() (string, error) { return kubeconfig.ReadToken(f.pageToken) }
	}
	if f.found {
		o.HealthElse = append(probeAddresses()[1:], "127.0.0.1:0")
	}
	return o
}

// history is what the live page shows of the past; nil without a page.
func (f *servingFlags) history() *history.Log {
	if f.page == "" || f.page == "0" {
		return nil
	}
	return new(history.Log)
}

// memoryFlags bound what the copies of the cluster's objects take.
type memoryFlags struct{ mirrorMiB, objectKiB int }

func (f *memoryFlags) add(cmd *cobra.Command, objectBytes int64) {
	fs := cmd.Flags()
	fs.IntVar(&f.mirrorMiB, "mirror-memory-mib", 0,
		"how many `MiB` the objects of one resource may take in memory; where there are more, the namespace that "+
			"takes most is not worked on until it fits, and named by skiff status (default: a third of the memory "+
			"limit)")
	fs.IntVar(&f.objectKiB, "max-object-kib", int(objectBytes>>10),
		"how many `KiB` one object may take in memory; a larger one is not worked on, and named by skiff status")
	InGroup(cmd, GroupAdvanced, "mirror-memory-mib", "max-object-kib")
}

func (f *memoryFlags) check() error {
	switch {
	case f.objectKiB < 1:
		return Usagef("--max-object-kib %d: must be at least 1", f.objectKiB)
	case f.mirrorMiB < 0:
		return Usagef("--mirror-memory-mib %d: must not be negative", f.mirrorMiB)
	}
	return nil
}

// bound has the mirrors of a Setup keep to the flags.
func (f *memoryFlags) bound(s *controller.Setup) {
	s.MirrorBytes, s.ObjectBytes = int64(f.mirrorMiB)<<20, int64(f.objectKiB)<<10
}

// defaultProbes is where `skiff run` serves probes, with the port of the manifests, unless the port is taken.
const defaultProbes = "127.0.0.1:8081"

// probePorts is how many ports `skiff run` tries, beginning with the port of defaultProbes, and `skiff status` asks:
// as many as skiffs may run on a machine. Where all are taken, the system chooses a port.
const probePorts = 10

// probeAddresses are these addresses; the first is defaultProbes.
func probeAddresses() []string {
	var all []string
	for port := range probePorts {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", 8081+port))
	}
	return all
}

// leastWatchTimeout is longer than the longest watch without a bookmark.
const leastWatchTimeout = 15 * time.Minute

// CheckAddress checks a listen address; "" and "0" mean none.
func CheckAddress(flag, address string) error {
	if address == "" || address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return Usagef("%s %s: want HOST:PORT or :PORT", flag, address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return Usagef("%s %s: the port must be a number from 0 to 65535", flag, address)
	}
	return nil
}

// loopback makes an address without a host reachable for this machine only.
func loopback(address string) string {
	if strings.HasPrefix(address, ":") {
		return "localhost" + address
	}
	return address
}

// floorFlags bound what a RestartTrigger may ask for: the operator of skiff sets them, a tenant writes the trigger.
type floorFlags struct{ restart.Floors }

func (f *floorFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.Debounce, "min-debounce", restart.DefaultFloors.Debounce,
		"the shortest debounce of a restart trigger; a shorter one is raised, and the trigger's status says so")
	cmd.Flags().DurationVar(&f.Cooldown, "min-cooldown", restart.DefaultFloors.Cooldown,
		"the shortest cooldown of a restart trigger; a shorter one is raised, and the trigger's status says so")
	InGroup(cmd, GroupAdvanced, "min-debounce", "min-cooldown")
}

func (f *floorFlags) check() error {
	switch {
	case f.Debounce < 0:
		return Usagef("--min-debounce %s: must not be negative", f.Debounce)
	case f.Cooldown < 0:
		return Usagef("--min-cooldown %s: must not be negative", f.Cooldown)
	}
	return nil
}
