package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Rules: MGR-09, MGR-10
func TestPrometheusReadsTheMetricsAndItsLinterFindsNoFault(t *testing.T) {
	t.Parallel()
	binary := must(skiffDevBinary())(t)
	port := must(freePort())(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--kubeconfig-out", filepath.Join(dir, "kubeconfig"),
		"--load", filepath.Join(repository, "examples", "webserver.yaml"), "--metrics-bind-address", loopback(port))
	cmd.Env = []string{"HOME=" + dir}
	log := must(os.Create(filepath.Join(dir, "log")))(t)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	noError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("skiff-dev: %v", err)
		}
	}()
	const reconciled = `controller_runtime_reconcile_total{controller="webserver",result="success"} `
	text := ""
	for strings.Contains(text, reconciled+"0") || !strings.Contains(text, reconciled) {
		var err error
		if text, err = scrape(ctx, "http://"+loopback(port)+"/metrics"); err != nil {
			text = err.Error()
		}
		select {
		case <-ctx.Done():
			t.Fatalf("nothing was reconciled: %.2000s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := must(parser.TextToMetricFamilies(strings.NewReader(text)))(t)
	if len(families) < 60 {
		t.Errorf("%d families", len(families))
	}
	problems := must(promlint.New(strings.NewReader(text)).Lint())(t)
	for _, p := range problems {
		t.Errorf("promtool check metrics: %s: %s", p.Metric, p.Text)
	}
}

func scrape(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return string(text), nil
}
