package kubeconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os/exec"
	"slices"
	"strings"

	"skiff/internal/runtime/process"
)

// The versions of the protocol between a client and its exec plugin (KEP-541). v1alpha1 went with Kubernetes 1.24.
const (
	execV1      = "client.authentication.k8s.io/v1"
	execV1beta1 = "client.authentication.k8s.io/v1beta1"
)

// execConfig is the `exec` of a user: the command that prints a credential.
type execConfig struct {
	APIVersion string   `yaml:"apiVersion"`
	Command    string   `yaml:"command"`
	Args       []Secret `yaml:"args"` // some plugins take a password here
	Env        []struct {
		Name  string `yaml:"name"`
		Value Secret `yaml:"value"`
	} `yaml:"env"`
	InstallHint        string `yaml:"installHint"`
	ProvideClusterInfo bool   `yaml:"provideClusterInfo"`
	InteractiveMode    string `yaml:"interactiveMode"`
}

// secrets returns arguments and variables of the plugin that may be secret: long values, and shorter values with the
// name of a secret (--password=x, --password x, PASSWORD=x). Longer values come first, because a shorter one may be a
// part of a longer one.
func (c *execConfig) secrets() []string {
	var out []string
	add := func(name, value string) {
		if process.IsSecret(name, value) {
			out = append(out, value)
		}
	}
	before := ""
	for _, a := range c.Args {
		arg := a.reveal()
		name, value, assigned := strings.Cut(arg, "=")
		if assigned {
			add(name, value)
		}
		add(before, arg)
		before = ""
		if strings.HasPrefix(arg, "-") && !assigned {
			before = arg
		}
	}
	for _, e := range c.Env {
		add(e.Name, e.Value.reveal())
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// check refuses an incomplete configuration. A plugin never gets a terminal: skiff is meant to run without a terminal,
// and a prompt would hold up every request.
func (c *execConfig) check() error {
	switch c.APIVersion {
	case execV1, execV1beta1:
	case "":
		return fmt.Errorf("apiVersion is missing: want %s or %s", execV1, execV1beta1)
	default:
		return fmt.Errorf("apiVersion %q: want %s or %s; a newer version of the plugin may write that",
			c.APIVersion, execV1, execV1beta1)
	}
	if c.Command == "" {
		return errors.New("command is missing")
	}
	for _, e := range c.Env {
		if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") {
			return fmt.Errorf("env: %q is not the name of an environment variable", e.Name)
		}
	}
	switch c.InteractiveMode {
	case "Never", "IfAvailable":
	case "Always":
		return errors.New("interactiveMode is Always, but skiff gives plugins no terminal: " +
			"log in beforehand and set IfAvailable, or use another credential")
	case "":
		if c.APIVersion == execV1 {
			return errors.New("interactiveMode is missing: want Never or IfAvailable")
		}
	default:
		return fmt.Errorf("interactiveMode %q: want Never, IfAvailable or Always", c.InteractiveMode)
	}
	return nil
}

// find returns the path of the command, or says how to install it.
func (c *execConfig) find() (string, error) {
	path, err := exec.LookPath(c.Command)
	if err == nil {
		return path, nil
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	var stat *fs.PathError
	if errors.As(err, &stat) {
		err = stat.Err
	}
	hint := strings.Join(strings.Fields(c.InstallHint), " ")
	if hint == "" {
		hint = "install it, or give the full path as the command"
	}
	return "", fmt.Errorf("find command %s: %w; %s", c.Command, err, hint)
}

// plugin returns the exec plugin of the user, nil without a plugin or with another credential. As in kubectl, a plugin
// beside another credential is not run.
func (t *target) plugin(server *url.URL, env Env) (*plugin, error) {
	u := &t.user
	if u.Exec == nil || u.credentialField() != "" {
		return nil, nil
	}
	where := u.origin.at("exec")
	if err := u.Exec.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if _, err := u.Exec.find(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	p := &plugin{config: *u.Exec, where: where, env: env, timeout: execTimeout}
	if !u.Exec.ProvideClusterInfo {
		return p, p.describe(nil)
	}
	info, err := t.cluster.info(server)
	if err != nil {
		return nil, err
	}
	return p, p.describe(info)
}

// execCluster describes the cluster to a plugin with provideClusterInfo.
type execCluster struct {
	Server        string `json:"server"`
	TLSServerName string `json:"tls-server-name,omitzero"`
	Insecure      bool   `json:"insecure-skip-tls-verify,omitzero"`
	CAData        []byte `json:"certificate-authority-data,omitempty"`
	ProxyURL      string `json:"proxy-url,omitzero"`
	Config        any    `json:"config,omitzero"`
}

// execExtension is the extension of a cluster whose content goes to the plugin as `config`.
const execExtension = "client.authentication.k8s.io/exec"

func (c *cluster) info(server *url.URL) (*execCluster, error) {
	info := &execCluster{Server: server.String(), TLSServerName: c.TLSServerName, Insecure: c.Insecure,
		ProxyURL: c.ProxyURL.reveal()}
	var err error
	if info.CAData, err = c.caPEM(); err != nil {
		return nil, err
	}
	for i := range c.Extensions {
		if c.Extensions[i].Name != execExtension {
			continue
		}
		if err := c.Extensions[i].Extension.Decode(&info.Config); err != nil {
			return nil, fmt.Errorf("%s: %w", c.origin.at("extensions"), yamlError(err))
		}
	}
	return info, nil
}

// describe sets the plugin's KUBERNETES_EXEC_INFO.
func (p *plugin) describe(cluster *execCluster) error {
	type spec struct {
		Cluster     *execCluster `json:"cluster,omitzero"`
		Interactive bool         `json:"interactive"`
	}
	info, err := json.Marshal(struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Spec       spec   `json:"spec"`
	}{"ExecCredential", p.config.APIVersion, spec{Cluster: cluster}})
	if err != nil {
		return fmt.Errorf("%s: the cluster's extension %s is not JSON", p.where, execExtension)
	}
	p.info = NewSecret(string(info)) // a proxy URL may carry a password
	return nil
}
