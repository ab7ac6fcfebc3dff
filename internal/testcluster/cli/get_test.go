package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"skiff/internal/runtime/kube"
)

var update = flag.Bool("update", false, "write the golden file anew")

// troubled are objects that cannot become ready, each for a reason of its own.
const troubled = `apiVersion: v1
kind: Service
metadata: {name: taken-service}
spec: {ports: [{port: 80}]}
---
apiVersion: skiff.dev/v1alpha1
kind: WebServer
metadata: {name: taken}
spec: {image: "nginx:1.23.1", replicas: 1}
---
apiVersion: skiff.dev/v1alpha1
kind: WebServer
metadata: {name: unscheduled}
spec: {image: "nginx:1.23.1", replicas: 2, template: {spec: {nodeSelector: {disk: ssd}}}}
---
apiVersion: skiff.dev/v1alpha1
kind: Redis
metadata: {name: unscheduled}
spec: {port: 6379, num: 2, template: {spec: {nodeSelector: {disk: ssd}}}}
---
apiVersion: skiff.dev/v1alpha1
kind: RestartTrigger
metadata: {name: without-target}
spec:
  source: {selector: {matchLabels: {app.kubernetes.io/instance: cache}}}
  targets: [{kind: Deployment, name: nosuch}]
`

// The golden file holds what kubectl get prints, and kubectl get -o wide: the server makes the rows, from the columns
// of the definitions and the status that the controllers write.
func TestWhatKubectlGetPrints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got strings.Builder
		d := pipeCluster()
		err := onDemoCluster(t.Context(), d, &actionLog{}, func(ctx context.Context, tour *tour) error {
			return tour.withControllers(ctx, func(ctx context.Context) error {
				scene := func(title string, do ...action) {
					for _, step := range do {
						if err := step(ctx, tour.client); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(2 * time.Minute)
					for _, r := range []kube.Resource{webServers, redises, triggers} {
						table := tableOf(t, d, r)
						fmt.Fprintf(&got, "# %s: kubectl get %s\n%s\n# -o wide\n%s\n", title, r.Plural,
							table.text(false), table.text(true))
					}
				}
				scene("healthy", apply(devObjects))
				scene("beside others that are not", apply(troubled))
				scene("being deleted", deleteHeld(webServers, "web", redises, "cache", triggers, "web"))
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		const golden = "testdata/get.txt"
		if *update {
			if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != string(want) {
			t.Errorf("it prints\n%s", got.String())
		}
	})
}

// deleteHeld deletes objects, which somebody else's finalizer keeps.
func deleteHeld(pairs ...any) action {
	return func(ctx context.Context, c *kube.Client) error {
		for pair := range slices.Chunk(pairs, 2) {
			r, name := pair[0].(kube.Resource), pair[1].(string)
			key := kube.Key{Namespace: demoNamespace, Name: name}
			var is struct {
				kube.Meta `json:"metadata"`
			}
			if err := c.Get(ctx, r, key, &is); err != nil {
				return err
			}
			hold := merge(r, name, "", object{"metadata": object{"finalizers": append(slices.Clip(is.Finalizers),
				"example.com/backup")}})
			if err := hold(ctx, c); err != nil {
				return err
			}
			if err := c.Delete(ctx, r, key, kube.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
}

// table is the answer of a server that was asked for rows.
type table struct {
	Columns []struct {
		Name     string `json:"name"`
		Priority int    `json:"priority"`
	} `json:"columnDefinitions"`
	Rows []struct {
		Cells []any `json:"cells"`
	} `json:"rows"`
}

func tableOf(t *testing.T, d *devCluster, r kube.Resource) table {
	t.Helper()
	transport := &http.Transport{DialContext: d.to.DialContext}
	defer transport.CloseIdleConnections()
	path, err := r.Path(demoNamespace, "")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.to.Server+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer table
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Columns) == 0 {
		t.Fatalf("%s %v: %v", resp.Status, answer, err)
	}
	return answer
}

var nodePort = regexp.MustCompile(`\b3[0-2]\d{3}\b`)

// text prints the rows as kubectl does.
func (a table) text(wide bool) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 6, 4, 3, ' ', 0)
	line := func(cell func(column int) string) {
		var cells []string
		for i, c := range a.Columns {
			if wide || c.Priority == 0 {
				cells = append(cells, cell(i))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line(func(i int) string { return strings.ToUpper(a.Columns[i].Name) })
	for _, row := range a.Rows {
		line(func(i int) string {
			switch {
			case row.Cells[i] == nil:
				return ""
			case a.Columns[i].Name == "Last Restart": // a cooldown has some jitter
				return "90s"
			}
			return nodePort.ReplaceAllString(fmt.Sprint(row.Cells[i]), "30080") // the free ones are taken at random
		})
	}
	_ = w.Flush() // a Builder takes all
	return out.String()
}
