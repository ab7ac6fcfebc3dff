package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// reserved is how many revisions a running server may use that no file has: some 500 writes a second for an hour, as
// revisions have gaps. After a crash revisions go on behind them, so that none is used twice.
const reserved = 10_000_000

// Keep writes the whole content of a server to a file, with Secrets and all values: it replaces an older file when the
// new one is on the disk. A server that has ended goes on from the revision of its last write.
func Keep(path, version string, content *apiserver.Export, ended bool) error {
	if content.Len() > MaxObjects {
		return fmt.Errorf("the cluster has more than %d objects", MaxObjects)
	}
	next := content.Revision
	if !ended {
		next += reserved
	}
	skiff, _ := kube.Version()
	first, err := json.Marshal(header{Format: format, Skiff: skiff, Server: version, Plain: true, Revision: next,
		Objects: content.Len()})
	if err != nil {
		return err
	}
	return Replace(path, func(f *os.File) error {
		_, err := f.Write(append(first, '\n'))
		if err != nil {
			return err
		}
		n, err := content.WriteTo(f)
		if err == nil && n > MaxBytes {
			err = fmt.Errorf("the cluster is larger than %d MiB", MaxBytes>>20)
		}
		return err
	})
}

// Replace writes a file that only this user may read, and renames it when it is on the disk: a reader, or a crash,
// finds the old content or the new one.
func Replace(path string, write func(f *os.File) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".skiff-dev-*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	syncDir(dir)
	return nil
}

// syncDir makes a rename last through a loss of power, where the file system can do that.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close() // was only read
	}
}

// Resume gives a new server the content of a file that Keep wrote; found is false where there is none. An error leaves
// the server and the file as they were.
func Resume(path string, server *apiserver.Server) (found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // was only read
	s, first, err := parse(f)
	if err == nil {
		err = resume(s, first, server)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

func resume(s *State, first header, server *apiserver.Server) error {
	if first.Revision < 1 || len(s.Objects) != first.Objects {
		return fmt.Errorf("it has %d of %d objects", len(s.Objects), first.Objects)
	}
	err := apiserver.Resume(server, s.Objects, first.Revision)
	var of *apiserver.ObjectError
	if errors.As(err, &of) {
		return fmt.Errorf("line %d: %w", of.Index+2, of.Err) // no line is empty
	}
	return err
}
