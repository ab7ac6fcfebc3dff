package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"skiff/internal/operators/redis"
	"skiff/internal/operators/restart"
	"skiff/internal/operators/webserver"
	"skiff/internal/runtime/kube"
)

// User is a static token user of the API server (--token-auth-file).
type User struct{ Name, Token, Groups string }

// The users. Components have names of their own so that the audit policy can leave them out; operator is who skiff
// runs as, with the rights that the controllers declare; restricted has only what a test grants.
var (
	admin             = User{"admin", canary + "-admin", "system:masters"}
	controllerManager = User{"component-controller-manager", canary + "-controller-manager", "system:masters"}
	scheduler         = User{"component-scheduler", canary + "-scheduler", "system:masters"}
	kwok              = User{"component-kwok", canary + "-kwok", "system:masters"}
	operator          = User{"operator", canary + "-operator", ""}
	restricted        = User{"restricted", canary + "-restricted", ""}
)

// clusterUsers are valid from the start.
var clusterUsers = []User{admin, controllerManager, scheduler, kwok, operator, restricted}

// tokenFile is the content of --token-auth-file.
func tokenFile(users []User) string {
	var b strings.Builder
	for _, u := range users {
		fmt.Fprintf(&b, "%s,%s,%s,%q\n", u.Token, u.Name, u.Name, u.Groups)
	}
	return b.String()
}

// Kubeconfig is what a test may want to set in a kubeconfig; empty fields are left out.
type Kubeconfig struct {
	Server string // URL
	CAFile string
	Token  string
	// TokenFile names a file that holds the token and may be rewritten while the client runs.
	TokenFile string
}

// Write writes the kubeconfig to path.
func (k Kubeconfig) Write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Config\nclusters:\n- name: e2e\n  cluster:\n    server: %q\n", k.Server)
	if k.CAFile != "" {
		fmt.Fprintf(&b, "    certificate-authority: %q\n", k.CAFile)
	}
	b.WriteString("users:\n- name: e2e\n  user:\n")
	switch {
	case k.Token != "":
		fmt.Fprintf(&b, "    token: %q\n", k.Token)
	case k.TokenFile != "":
		fmt.Fprintf(&b, "    tokenFile: %q\n", k.TokenFile)
	default:
		b.WriteString("    {}\n")
	}
	b.WriteString("contexts:\n- name: e2e\n  context: {cluster: e2e, user: e2e}\ncurrent-context: e2e\n")
	if err := replaceFile(path, b.String()); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// replaceFile writes a file that others may be reading: by rename, so that they never see half of it.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close(), os.Rename(f.Name(), path))
}

// Kubeconfig writes a kubeconfig for the user into the cluster's directory and returns its path.
func (c *Cluster) Kubeconfig(u User) (string, error) {
	path := filepath.Join(c.Dir, u.Name+".kubeconfig")
	return path, Kubeconfig{Server: c.Server, CAFile: c.CAFile, Token: u.Token}.Write(path)
}

// writeServiceAccountKeys makes the key pair that signs and checks service account tokens. 2048 bits: enough for a
// test, quick to make.
func writeServiceAccountKeys(private, public string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("generate the service account key: %w", err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encode the service account key: %w", err)
	}
	for _, f := range []struct {
		path  string
		block pem.Block
	}{
		{private, pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}},
		{public, pem.Block{Type: "PUBLIC KEY", Bytes: pub}},
	} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&f.block), 0o600); err != nil {
			return fmt.Errorf("write the service account key: %w", err)
		}
	}
	return nil
}

// operatorRights are what each controller declares that it needs, by its name.
var operatorRights = map[string][]kube.Right{
	"webserver": webserver.Rights,
	"redis":     redis.Rights,
	"restart":   restart.Rights,
}

// allRights are those of all controllers.
func allRights() []kube.Right {
	return slices.Concat(webserver.Rights, redis.Rights, restart.Rights)
}

// without returns rights without a verb on a resource, "pods" or "deployments.apps".
func without(rights []kube.Right, verb, resource string) []kube.Right {
	out := slices.Clone(rights)
	for i, r := range out {
		if r.String() == resource {
			out[i].Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return v == verb })
		}
	}
	return slices.DeleteFunc(out, func(r kube.Right) bool { return len(r.Verbs) == 0 })
}

// grant is a manifest that gives a user rights and not a verb more: a ClusterRole, or a Role of the namespace that it
// is applied to, and its binding.
func grant(kind, name, user string, rights []kube.Right) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: %s}\nrules:\n", kind, name)
	for _, r := range rights {
		resource := r.Resource.Plural
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		fmt.Fprintf(&b, "- {apiGroups: [%q], resources: [%s], verbs: [%s]}\n", r.Resource.Group, resource,
			strings.Join(r.Verbs, ", "))
	}
	fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %[1]sBinding\nmetadata: {name: %[2]s}\n"+
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: %[2]s}\n"+
		"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[3]s}]\n", kind, name, user)
	return b.String()
}
