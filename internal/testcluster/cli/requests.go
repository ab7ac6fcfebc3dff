package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

const (
	// requestsInterval is how often -f asks for the requests since then.
	requestsInterval = 300 * time.Millisecond
	// longRequest is how long -f waits for the answer to a request before it shows that there is none yet.
	longRequest = 5 * time.Second
	// maxShownPath and maxShownName bound what clients choose.
	maxShownPath, maxShownName = 300, 60
)

// newRequests makes the command that shows which requests a skiff-dev gets.
func newRequests() *cobra.Command {
	var to kubeconfig.Flags
	var follow bool
	cmd := &cobra.Command{
		Use:   "requests [flags]",
		Short: "Show the requests that a running skiff-dev gets",
		Long: `Prints the requests that the skiff-dev of the kubeconfig has got: when, the status of the answer, the verb and path,
how long the answer took, who asked, and with which program. With --follow it goes on as they come, until Ctrl-C.`,
		Example: `  skiff-dev requests
  skiff-dev requests -f | grep ' 409 '`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := cli.Connect(cmd, to)
			if err != nil {
				return err
			}
			defer client.Close()
			return showRequests(cmd.Context(), client, cmd.OutOrStdout(), follow)
		},
	}
	cli.AddConnectionFlags(cmd, &to)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with those that come")
	return cmd
}

// sentRequest is a request as GET /skiff/requests has it.
type sentRequest struct {
	Method, Path, Query, User, UserAgent string

	Watch      bool
	Status     int
	Time, Done time.Time
}

// showRequests prints the requests that there were, and with follow those that come until ctx is done.
func showRequests(ctx context.Context, client *kube.Client, out io.Writer, follow bool) error {
	var since time.Time
	for {
		all, err := requestsAfter(ctx, client, since)
		if err != nil {
			return cli.Ended(ctx, err)
		}
		for _, r := range all {
			if follow && !r.Watch && r.Status == 0 && time.Since(r.Time) < longRequest {
				break // its answer comes at once, and those after it then, in their order
			}
			if _, err := io.WriteString(out, r.line()); err != nil {
				return fmt.Errorf("print the requests: %w", err)
			}
			since = r.Time
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(requestsInterval):
		}
	}
}

// requestsAfter asks a skiff-dev for the requests that arrived after a time.
func requestsAfter(ctx context.Context, client *kube.Client, since time.Time) ([]sentRequest, error) {
	query := url.Values{}
	if !since.IsZero() {
		query.Set("since", since.Format(time.RFC3339Nano))
	}
	body, err := client.Raw(ctx, http.MethodGet, "/skiff/requests", query)
	switch {
	case kube.IsNotFound(err), kube.IsForbidden(err):
		return nil, fmt.Errorf("%s is no skiff-dev, or not its administrator asks: use the kubeconfig that skiff-dev "+
			"prints: %w", client.Server(), err)
	case err != nil:
		return nil, fmt.Errorf("ask for the requests: %w", err)
	}
	var answer struct {
		Requests []sentRequest `json:"requests"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("read the requests: %w", err)
	}
	return answer.Requests, nil
}

// line is a request as one line.
func (r *sentRequest) line() string {
	verb, status, took, path := r.Method, "...", "open", r.Path
	if r.Watch {
		verb = "WATCH"
	}
	if r.Status != 0 {
		status = fmt.Sprint(r.Status)
	}
	if !r.Done.IsZero() {
		took = fmt.Sprintf("%.1f ms", float64(r.Done.Sub(r.Time).Microseconds())/1000)
	}
	if r.Query != "" {
		path += "?" + r.Query
	}
	user := r.User
	if user == "" {
		user = "-"
	}
	return fmt.Sprintf("%s  %s  %-6s  %s  %s  %s  %s\n", r.Time.Local().Format("15:04:05.000"), status, verb,
		kube.Printable(path, maxShownPath), took, kube.Printable(user, maxShownName),
		kube.Printable(r.UserAgent, maxShownName))
}
