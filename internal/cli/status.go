package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/controller"
	"skiff/internal/kube"
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
	address := ":8081"
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how a running skiff is doing, and what needs attention",
		Long: `Asks a running skiff for /readyz?verbose, at the address of its --health-probe-bind-address: whether it
is ready, what it does not work on and why, which objects it fails to write, and each watch with the time of its last
contact with the API server. Lines that begin with ! need attention.

Exit codes: 0 all is well, 3 something needs attention, 1 failed (no skiff answers there), 2 wrong usage.`,
		Example: `  skiff status
  skiff status --health-probe-bind-address 10.0.3.7:8081
  kubectl exec -n skiff deploy/skiff -- /skiff status`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if address == "" || address == "0" {
				return usagef("--health-probe-bind-address %q: want the HOST:PORT where skiff serves its probes",
					address)
			}
			if err := checkAddress("--health-probe-bind-address", address); err != nil {
				return err
			}
			return showStatus(cmd.Context(), reachable(address), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&address, "health-probe-bind-address", address,
		"`host:port` of the probes, as 'skiff run' was given it")
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

// showStatus prints what the skiff at an address says of itself, and returns errDiffer if that needs attention.
func showStatus(ctx context.Context, address string, out io.Writer) error {
	ready, lines, err := askStatus(ctx, address)
	if err != nil {
		return fmt.Errorf("ask skiff at %s for its status: %w", address, err)
	}
	attention := 0
	for _, line := range lines {
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
	if !ready {
		state = "not ready"
	}
	if _, err := fmt.Fprintf(out, "skiff at %s is %s; %s\n%s\n", address, state, summary,
		strings.Join(lines, "\n")); err != nil {
		return err
	}
	if attention > 0 || !ready {
		return errDiffer
	}
	return nil
}

// askStatus returns the lines of /readyz?verbose.
func askStatus(ctx context.Context, address string) (ready bool, lines []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz?verbose", nil)
	if err != nil {
		return false, nil, err
	}
	transport := &http.Transport{} // without a proxy: the address is on this machine or in its cluster
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		// Without its wrapping, which would bring the advice that is for API servers.
		if dial := (*net.OpError)(nil); errors.As(err, &dial) {
			err = dial.Err
		}
		return false, nil, fmt.Errorf("%w; does skiff run there, with --health-probe-bind-address?", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	if err != nil {
		return false, nil, err
	}
	text, last := cutLast(strings.TrimSuffix(string(body), "\n"))
	if last != "readyz check passed" && last != "readyz check failed" {
		return false, nil, fmt.Errorf("the answer (%s) is not that of skiff; check the address", resp.Status)
	}
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, kube.Printable(line, statusLine))
	}
	return resp.StatusCode == http.StatusOK, lines, nil
}

// cutLast cuts text before its last line.
func cutLast(text string) (before, last string) {
	i := strings.LastIndexByte(text, '\n')
	if i < 0 {
		return "", text
	}
	return text[:i], text[i+1:]
}
