package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/page"
)

// This file asks a process of skiff how it is. Anything may answer at an address, so an answer is bounded and checked.

const (
	// statusTimeout is a little longer than a probe of skiff may take.
	statusTimeout = 15 * time.Second
	// maxStatus is far more than the lines of a thousand namespaces, or all that the live page answers at once.
	maxStatus = 4 << 20
	// statusLine bounds a text that is shown, and maxStatusLines are more lines than a thousand namespaces have.
	statusLine, maxStatusLines = 1 << 10, 20_000
)

// status is what a process of skiff says of itself.
type status struct {
	Address string `json:"address"`
	Well    bool   `json:"well"` // nothing needs attention
	*page.State
	Watches *page.WatchAnswer `json:"watches,omitempty"`
	Probes  *health.Report    `json:"probes,omitempty"` // in place of the others where the live page is not served
}

// statusAsker asks over connections of its own, until close is called.
type statusAsker struct {
	transport http.Transport // without a proxy: the address is on this machine or in its cluster
	timeout   time.Duration
	tokenFile string // "": the page needs no token
	token     string
	cluster   *kube.Client // for the leading skiff of a cluster; nil until the first request for it
}

func newStatusAsker(timeout time.Duration) *statusAsker {
	return &statusAsker{timeout: timeout,
		transport: http.Transport{MaxResponseHeaderBytes: 64 << 10, DisableCompression: true}}
}

func (q *statusAsker) close() {
	q.transport.CloseIdleConnections()
	if q.cluster != nil {
		q.cluster.Close()
	}
}

// get returns the answer to a GET, and its body up to maxStatus.
func (q *statusAsker) get(ctx context.Context, address, path, flag string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(address)+path, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", "application/json, text/plain")
	if q.token != "" {
		req.Header.Set("Authorization", "Bearer "+q.token)
	}
	resp, err := q.transport.RoundTrip(req)
	if err == nil {
		err = kube.RefuseSwitch(resp)
	}
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil, nil, fmt.Errorf("nothing listens on %s: start skiff run with %s %[1]s", address, flag)
		}
		// Without its wrapping, which would bring the advice that is for API servers.
		if dial := (*net.OpError)(nil); errors.As(err, &dial) {
			err = dial.Err
		} else if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", q.timeout)
		}
		return nil, nil, fmt.Errorf("%w; check the address", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the answer ended early: %w; try again", err)
	case len(body) > maxStatus:
		return nil, nil, fmt.Errorf("the answer is larger than %d MiB, and so not that of skiff; check the address",
			maxStatus>>20)
	}
	return resp, body, nil
}

// foreign is the error of an answer that skiff does not give.
func foreign(resp *http.Response) error {
	return fmt.Errorf("the answer (%s) is not that of skiff; check the address", kube.Printable(resp.Status, 100))
}

// page asks the live page.
func (q *statusAsker) page(ctx context.Context, address string) (*status, error) {
	s := &status{Address: reachable(address), State: new(page.State), Watches: new(page.WatchAnswer)}
	if err := q.json(ctx, address, "/debug/state", s.State); err != nil {
		return nil, err
	}
	if err := q.json(ctx, address, "/debug/watches", s.Watches); err != nil {
		return nil, err
	}
	s.Well = s.Banner.Well
	return s, nil
}

func (q *statusAsker) json(ctx context.Context, address, path string, into any) error {
	resp, body, err := q.get(ctx, address, path, "--debug-bind-address")
	if err != nil {
		return err
	}
	var head struct{ Format string }
	switch {
	case resp.StatusCode == http.StatusUnauthorized && q.token == "":
		return errors.New("it wants a token: give --debug-token-file")
	case resp.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("it refuses the token of --debug-token-file %s: check the file", q.tokenFile)
	case resp.StatusCode == http.StatusMisdirectedRequest:
		return errors.New("it does not serve the page under this host name: use an IP address, or start skiff with " +
			"--debug-allowed-hosts")
	case resp.StatusCode == http.StatusNotFound && json.Unmarshal(body, &head) == nil &&
		strings.HasPrefix(head.Format, "skiff-state/"):
		return errNoSuchObject
	case resp.StatusCode != http.StatusOK || json.Unmarshal(body, &head) != nil ||
		!strings.HasPrefix(head.Format, "skiff-state/"):
		return foreign(resp)
	case head.Format != page.Format:
		return fmt.Errorf("it answers in the form %s, and this skiff reads %s: run the skiff of its version",
			kube.Printable(head.Format, 100), page.Format)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// probes asks /readyz, and then the live page, if the answer names a page on this machine and no token is needed.
func (q *statusAsker) probes(ctx context.Context, address string) (*status, error) {
	resp, body, err := q.get(ctx, address, "/readyz?format=json", "--health-probe-bind-address")
	if err != nil {
		return nil, err
	}
	s := readProbes(reachable(address), body)
	if s == nil {
		return nil, foreign(resp)
	}
	at, err := pageAddress(s.Probes.Page)
	if s.Probes.Page != "" && err == nil && isLoopback(address) && isLoopback(at) {
		if whole, err := q.page(ctx, at); err == nil { // else the probes are shown, and name the page
			return whole, nil
		}
	}
	return s, nil
}

// readProbes reads an answer of /readyz?format=json; nil: it is not skiff's.
func readProbes(address string, body []byte) *status {
	r := new(health.Report)
	if json.Unmarshal(body, r) != nil || r.Format != health.Format {
		return nil
	}
	lines := 0
	for i, c := range r.Checks {
		if lines += 1 + len(c.Problems) + len(c.Notes) + len(c.Failed); lines > maxStatusLines {
			r.Checks = append(r.Checks[:i], health.Check{Name: "status", Failed: []health.Problem{{
				Reason: "TooLarge", Public: "the answer has more lines"}}})
			break
		}
	}
	return &status{Address: address, Probes: r, Well: r.Passed && r.Problems() == 0}
}

// pageAddress is the host:port in the URL of a live page, or what is given if it is none.
func pageAddress(given string) (string, error) {
	if !strings.Contains(given, "://") {
		return given, nil
	}
	u, err := url.Parse(given)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" || u.User != nil {
		return "", fmt.Errorf("want HOST:PORT or http://HOST:PORT/debug/")
	}
	return u.Host, nil
}

// isLoopback says whether an address is one of this machine alone.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(reachable(address))
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// reachable makes an address to connect to of one to listen on.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return address
}

// worst is the worst exit code of several, as an error.
func worst(all []*status) error {
	for _, s := range all {
		if !s.Well {
			return errDiffer
		}
	}
	return nil
}
