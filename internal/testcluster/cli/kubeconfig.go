package cli

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/state"
)

// chooseKubeconfig sets the file of --kubeconfig-out where it is not set. Runs with a command get a file each, so that
// several can run at the same time; remove removes it.
func (f *devFlags) chooseKubeconfig() (remove func() error, err error) {
	remove = func() error { return nil }
	if f.kubeconfig == "" && f.data != "" {
		f.kubeconfig = filepath.Join(f.data, kubeconfigFile)
	}
	if f.kubeconfig == "" && len(f.command) > 0 {
		dir, err := os.MkdirTemp("", "skiff-dev-")
		if err != nil {
			return nil, fmt.Errorf("make a directory for the kubeconfig: %w: set --kubeconfig-out", err)
		}
		f.kubeconfig = filepath.Join(dir, "kubeconfig")
		return func() error { return os.RemoveAll(dir) }, nil
	}
	if f.kubeconfig == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the cache directory for the kubeconfig: %w: set --kubeconfig-out", err)
		}
		f.kubeconfig = filepath.Join(dir, "skiff", "dev.kubeconfig")
		if isServed(f.kubeconfig) { // a shell with that kubeconfig keeps its cluster
			f.kubeconfig = filepath.Join(dir, "skiff", fmt.Sprintf("dev-%d.kubeconfig", os.Getpid()))
		}
	}
	path, err := filepath.Abs(f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig-out %s: %w", f.kubeconfig, err)
	}
	f.kubeconfig = path
	return remove, nil
}

// isServed reports whether the server of a kubeconfig runs. One that was killed leaves its file behind.
func isServed(path string) bool {
	cfg, _, err := kubeconfig.Load(kubeconfig.Flags{Kubeconfig: path}, kubeconfig.OSEnv(func(string) {}))
	if err != nil {
		return false
	}
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(cfg.Server, "https://"), time.Second)
	return err == nil && conn.Close() == nil
}

// writeKubeconfig writes the kubeconfig for kubectl and skiff. Only this user may read it.
func (d *devCluster) writeKubeconfig(tls *apiserver.TLS) error {
	var err error
	if d.file, err = kubeconfigOf(tls.URL, tls.CA, d.o.api.Token); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return replaceFile("--kubeconfig-out", d.o.kubeconfig, d.file)
}

// contextName is that of the context in a kubeconfig of this program.
const contextName = "skiff-dev"

func kubeconfigOf(url string, ca []byte, token string) ([]byte, error) {
	const name = contextName
	type object = map[string]any
	return yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{object{"name": name, "cluster": object{"server": url,
			"certificate-authority-data": base64.StdEncoding.EncodeToString(ca)}}},
		"users":    []any{object{"name": name, "user": object{"token": token}}},
		"contexts": []any{object{"name": name, "context": object{"cluster": name, "user": name}}},
	})
}

// replaceFile writes a file that only this user may read. It renames a new file, so that the permissions of an old
// file do not matter and a reader never sees half of the content. flag names the file in errors.
func replaceFile(flag, path string, content []byte) error {
	refused := func(err error) error {
		return fmt.Errorf("%s %s: %w: choose a file that can be written", flag, path, err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return refused(syscall.EISDIR)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return refused(err)
	}
	err := state.Replace(path, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
	if err != nil {
		return refused(err)
	}
	return nil
}

// removeFile removes a file that this process has written, unless another process has changed it since.
func removeFile(path string, content []byte) error {
	if now, err := kubeconfig.ReadFile(path); err != nil || !bytes.Equal(now, content) {
		return nil // not ours any more, or removed already
	}
	return os.Remove(path)
}

func (d *devCluster) removeFiles() error {
	var err error
	if d.o.data == nil { // else it is good for the next process, too
		err = removeFile(d.o.kubeconfig, d.file)
	}
	if d.ready != nil {
		err = errors.Join(err, removeFile(d.o.readyFile, d.ready))
	}
	return err
}
