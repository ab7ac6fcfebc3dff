package cli

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/state"
)

// The files in the directory of --data.
const (
	lockFile       = "lock"           // has the process ID of the skiff-dev that holds its lock
	stateFile      = "state.jsonl"    // the objects
	previousFile   = "previous.jsonl" // those with which the last run began
	identityFile   = "identity.json"  // what clients know of the server
	kubeconfigFile = "kubeconfig"
	// Those of 'skiff-dev start'.
	startFile  = "start.json" // how it was started
	readyFile  = "ready.json" // is there while it runs, or was killed
	logFile    = "log"        // of this run, and oldLogFile of the one before
	oldLogFile = "log.1"
)

// identity is what clients know of a server, and what it has to be after a restart.
type identity struct {
	Format      string    `json:"format"`
	Created     time.Time `json:"created"`
	Address     string    `json:"address"` // "" before the first run
	Token       string    `json:"token"`
	Certificate string    `json:"certificate"` // in PEM, as what follows
	Key         string    `json:"key"`
	CA          string    `json:"ca"`
	AccountKey  string    `json:"accountKey"` // signs tokens of service accounts
}

const identityFormat = "skiff-identity/1"

// dataDir is a directory with a cluster, which this process has locked. A nil one keeps nothing.
type dataDir struct {
	path string
	lock *os.File
	identity
	server, account crypto.Signer // the keys
	found           bool          // it had a cluster
	version         string        // of Kubernetes
}

// openData locks the directory of --data and reads who the server is; nil without --data. A directory that is new gets
// a new identity.
func openData(f *devFlags, cmd *cobra.Command, in input) (*dataDir, error) {
	if f.data == "" {
		return nil, nil
	}
	if in.copied != nil {
		return nil, cli.Usagef("--data %s: a copy of a cluster is not kept: leave out --data or --load", f.data)
	}
	path, err := filepath.Abs(f.data)
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", f.data, err)
	}
	f.data = path
	d, err := lockData(path)
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", path, err)
	}
	if err := d.readIdentity(); err != nil {
		d.close()
		return nil, fmt.Errorf("--data %s: %w", path, err)
	}
	if !cmd.Flags().Changed("listen") && d.Address != "" {
		f.listen = d.Address
	}
	return d, nil
}

// lockData makes a directory, unless there is one with a cluster or nothing in it, and locks it.
func lockData(path string) (*dataDir, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, errors.New("it is a file: choose a directory, which may be new")
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("%w: choose a directory that can be written", err)
	}
	if other, err := foreign(path); err != nil {
		return nil, err
	} else if other != "" {
		return nil, fmt.Errorf("it has other files, such as %q: choose an empty or a new directory", other)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: choose a directory that can be written", err)
	}
	d := &dataDir{path: path, lock: lock}
	if err := takeLock(lock, lockPatience); err != nil {
		pid := lockedBy(path)
		d.close()
		if errors.Is(err, errLocked) {
			err = fmt.Errorf("another skiff-dev uses it, process %d: stop that, or choose another directory", pid)
		}
		return nil, err
	}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// maxForeign is how many names of a directory are read: a cluster has ten.
const maxForeign = 1000

// foreign names a file in a directory that holds no cluster; "" if there is none.
func foreign(dir string) (string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer f.Close() // was only read
	names, _ := f.Readdirnames(maxForeign)
	if slices.Contains(names, identityFile) || slices.Contains(names, stateFile) {
		return "", nil
	}
	slices.Sort(names)
	own := []string{lockFile, stateFile, previousFile, kubeconfigFile, startFile, readyFile, logFile, oldLogFile}
	for _, name := range names {
		if !slices.Contains(own, name) && !strings.HasPrefix(name, ".skiff-dev-") {
			return name, nil
		}
	}
	return "", nil
}

// close gives the directory free.
func (d *dataDir) close() {
	if d != nil {
		d.lock.Close() // which ends the lock
	}
}

// resumed reports whether the cluster is from an earlier run.
func (d *dataDir) resumed() bool { return d != nil && d.found }

// file returns the path of a file.
func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

// readIdentity reads the identity, or makes one for a directory without.
func (d *dataDir) readIdentity() error {
	path := d.file(identityFile)
	text, err := kubeconfig.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d.newIdentity()
	}
	if err == nil {
		err = d.parseIdentity(text)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w: move it away to get a new certificate, token and port; objects stay", path,
			err)
	}
	return nil
}

func (d *dataDir) parseIdentity(text []byte) error {
	if err := json.Unmarshal(text, &d.identity); err != nil {
		return err
	}
	if d.Format != identityFormat {
		return fmt.Errorf("its format is %.50q, want %s", d.Format, identityFormat)
	}
	var err error
	if d.server, err = parseKey("key", []byte(d.Key)); err != nil {
		return err
	}
	if d.account, err = parseKey("accountKey", []byte(d.AccountKey)); err != nil {
		return err
	}
	if d.Token == "" {
		return errors.New("it has no token")
	}
	if d.Address != "" {
		return checkLoopback("address", d.Address)
	}
	return nil
}

func (d *dataDir) newIdentity() error {
	cert, ca, err := apiserver.NewCertificate()
	if err != nil {
		return err
	}
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	d.server, d.account = cert.PrivateKey.(crypto.Signer), account
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	accountKey, err2 := x509.MarshalPKCS8PrivateKey(account)
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("encode the keys: %w", err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	d.identity = identity{Format: identityFormat, Created: time.Now().UTC(), Token: rand.Text(),
		Certificate: text("CERTIFICATE", cert.Certificate[0]), Key: text("PRIVATE KEY", key), CA: string(ca),
		AccountKey: text("PRIVATE KEY", accountKey)}
	return nil
}

// certificate returns the server's certificate and that of its authority.
func (d *dataDir) certificate() (tls.Certificate, []byte, error) {
	cert, err := tls.X509KeyPair([]byte(d.Certificate+d.CA), []byte(d.Key))
	if err != nil {
		err = fmt.Errorf("read %s: %w: move it away to get a new one; objects stay", d.file(identityFile), err)
	}
	return cert, []byte(d.CA), err
}

// setup makes a server of the identity.
func (d *dataDir) setup(o *devOptions) error {
	var seed [8]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return err
	}
	// A seed of each run: generated names of the last run are in use.
	o.api.Seed = binary.NativeEndian.Uint64(seed[:])
	o.api.Token, o.api.TokenKey = d.Token, d.account
	d.version = o.api.Features.Version()
	return nil
}

// remember keeps the address of the server, for the next run.
func (d *dataDir) remember(server string) error {
	u, err := url.Parse(server)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	d.Address = u.Host
	text, err := json.MarshalIndent(d.identity, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the identity: %w", err)
	}
	return replaceFile("--data", d.file(identityFile), append(text, '\n'))
}

// resume gives a new server the objects of the last run, and then keeps its content before any client can write.
func (d *dataDir) resume(server *apiserver.Server) (err error) {
	path := d.file(stateFile)
	if d.found, err = state.Resume(path, server); err != nil {
		instead := ""
		if _, none := os.Stat(d.file(previousFile)); none == nil {
			instead = fmt.Sprintf(", or copy %s over it, with which the last run began", d.file(previousFile))
		}
		return fmt.Errorf("--data: %w: nothing was changed; repair it, or move it away to begin with an empty "+
			"cluster%s", err, instead)
	}
	if d.found {
		// Where the file system has no links, there is no older state.
		if err := os.Remove(d.file(previousFile)); err == nil || errors.Is(err, fs.ErrNotExist) {
			_ = os.Link(path, d.file(previousFile))
		}
	}
	return d.keep(server, false)
}

// keep writes what a server has.
func (d *dataDir) keep(server *apiserver.Server, ended bool) error {
	content, err := apiserver.Content(server)
	if err == nil {
		err = state.Keep(d.file(stateFile), d.version, content, ended)
	}
	if err != nil {
		return fmt.Errorf("--data: write %s: %w: the last state that was written stays", d.file(stateFile), err)
	}
	return nil
}

const (
	// saveInterval bounds the loss of a crash, and saveShare the part of the time in which a large cluster is written.
	saveInterval = 2 * time.Second
	saveShare    = 10
)

// save writes the content of the cluster after changes, until the function that it returns is called, which waits for
// the end of that and writes it a last time.
func (d *devCluster) save() (last func() error) {
	if d.o.data == nil {
		return func() error { return nil }
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		saved, failed, wait := int64(0), false, saveInterval
		for {
			select {
			case <-stop:
				return
			case <-time.After(wait):
			}
			began, now := time.Now(), d.api.Revision()
			if now == saved {
				continue
			}
			err := d.o.data.keep(d.api, false)
			if err != nil && !failed {
				d.o.log.Error(err, "the cluster is not saved", "next", "it is tried again until it works")
			}
			if failed = err != nil; !failed {
				saved = now
			}
			wait = max(saveInterval, saveShare*time.Since(began))
		}
	}()
	return func() error {
		close(stop)
		<-done
		return d.o.data.keep(d.api, true)
	}
}
