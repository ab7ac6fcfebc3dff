package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

const (
	// statusTimeout is a little longer than a probe of skiff may take.
	statusTimeout = 15 * time.Second
	// maxStatus is far more than the lines of a thousand namespaces.
	maxStatus = 4 << 20
	// statusLine is the longest line that is shown.
	statusLine = 1 << 10
)

func newStatus() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how a running skiff is doing, and what needs attention",
		Long: `Asks a running skiff for /readyz?verbose: whether it is ready, what it does not work on and why, which objects
it fails to write, since when the API server does not answer, who leads, and each watch with the time of its last
contact. Lines that begin with ! need attention.

Without a flag it asks each skiff on this machine that serves its probes on 127.0.0.1, ports 8081 to 8090: that is
where 'skiff run' serves them without a flag.

Exit codes: 0 all is well, 3 something needs attention, 1 failed (no skiff answers there), 2 wrong usage.`,
		Example: `  skiff status
  skiff status --health-probe-bind-address 10.0.3.7:8081
  kubectl exec -n skiff deploy/skiff -- /skiff status`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("health-probe-bind-address") {
				return findStatus(cmd.Context(), probeAddresses(), cmd.OutOrStdout())
			}
			if address == "" || address == "0" {
				return Usagef("--health-probe-bind-address %q: want the HOST:PORT where skiff serves its probes",
					address)
			}
			if err := CheckAddress("--health-probe-bind-address", address); err != nil {
				return err
			}
			answer, err := askStatus(cmd.Context(), address)
			if err != nil {
				return fmt.Errorf("ask skiff at %s for its status: %w", reachable(address), err)
			}
			return answer.show(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&address, "health-probe-bind-address", "",
		"`host:port` of the probes, as 'skiff run' was given it (default: each skiff on 127.0.0.1:8081 to 8090)")
	return cmd
}

// reachable makes an address to connect to of one to listen on.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return address
}

// findStatus prints what each skiff at some of the addresses says of itself.
func findStatus(ctx context.Context, addresses []string, out io.Writer) error {
	answers, errs := make([]statusAnswer, len(addresses)), make([]error, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() { answers[i], errs[i] = askStatus(ctx, address) })
	}
	asking.Wait()
	var result error
	shown := 0
	for i := range answers {
		if errs[i] != nil {
			continue // another program has this port, or none
		}
		if shown++; shown > 1 {
			fmt.Fprintln(out)
		}
		if err := answers[i].show(out); err != nil {
			result = err
		}
	}
	if shown == 0 {
		return fmt.Errorf("no skiff answers on %s to %s: start `skiff run`, or name the address where it serves its "+
			"probes with --health-probe-bind-address", addresses[0], addresses[len(addresses)-1])
	}
	return result
}

// statusAnswer is what a skiff says of itself.
type statusAnswer struct {
	address string
	ready   bool
	lines   []string
}

// show prints it, and returns errDiffer if something needs attention.
func (a statusAnswer) show(out io.Writer) error {
	attention := 0
	for _, line := range a.lines {
		if strings.HasPrefix(line, "[-]") || strings.HasPrefix(line, "    "+controller.Attention) {
			attention++
		}
	}
	summary := "all is well"
	if attention == 1 {
		summary = "1 line needs attention"
	} else if attention > 1 {
		summary = fmt.Sprintf("%d lines need attention", attention)
	}
	state := "ready"
	if !a.ready {
		state = "not ready"
	}
	if _, err := fmt.Fprintf(out, "skiff at %s is %s; %s\n%s\n", a.address, state, summary,
		strings.Join(a.lines, "\n")); err != nil {
		return err
	}
	if attention > 0 || !a.ready {
		return errDiffer
	}
	return nil
}

// askStatus returns the lines of /readyz?verbose of the skiff that serves its probes at an address.
func askStatus(ctx context.Context, listens string) (statusAnswer, error) {
	a := statusAnswer{address: reachable(listens)}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.address+"/readyz?verbose", nil)
	if err != nil {
		return a, err
	}
	transport := &http.Transport{} // without a proxy: the address is on this machine or in its cluster
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return a, fmt.Errorf("nothing listens on %s: start skiff run with --health-probe-bind-address %[1]s",
				listens)
		}
		// Without its wrapping, which would bring the advice that is for API servers.
		if dial := (*net.OpError)(nil); errors.As(err, &dial) {
			err = dial.Err
		}
		return a, fmt.Errorf("%w; check the address", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	if err != nil {
		return a, err
	}
	text, last := cutLast(strings.TrimSuffix(string(body), "\n"))
	if last != "readyz check passed" && last != "readyz check failed" {
		return a, fmt.Errorf("the answer (%s) is not that of skiff; check the address", resp.Status)
	}
	for line := range strings.SplitSeq(text, "\n") {
		a.lines = append(a.lines, kube.Printable(line, statusLine))
	}
	a.ready = resp.StatusCode == http.StatusOK
	return a, nil
}

// cutLast cuts text before its last line.
func cutLast(text string) (before, last string) {
	i := strings.LastIndexByte(text, '\n')
	if i < 0 {
		return "", text
	}
	return text[:i], text[i+1:]
}
