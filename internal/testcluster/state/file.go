package state

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// format is what the first line of a file says. A change after which an older skiff-dev would read it wrongly gets
// another number.
const format = "skiff-state/1"

// header is the first line of a file; each of the others is an object.
type header struct {
	Format string   `json:"format"`
	Skiff  string   `json:"skiff"`  // that wrote it
	Server string   `json:"server"` // the version of the cluster
	Plain  bool     `json:"plain"`  // no value was replaced
	Notes  []string `json:"notes,omitempty"`
	// Revision and Objects are of a file of Keep: the revision to go on from, and how many objects the file has.
	Revision int64 `json:"revision,omitempty"`
	Objects  int   `json:"objects,omitempty"`
}

const (
	// maxLine is how long a line may be. An object has 1.5 MiB in etcd, and some more as JSON with all its fields.
	maxLine = 16 << 20
	// maxNotes is how many notes are taken from a file.
	maxNotes = 100
)

// Save writes the copy to a new file that only this user may read. It takes no file that exists, so that it follows no
// link, and returns how long the file is.
func (s *State) Save(path string) (bytes int, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return 0, fmt.Errorf("%w: choose a new file", err)
	}
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriter(f)
	version, _ := kube.Version()
	first, err := json.Marshal(header{Format: format, Skiff: version, Server: s.Server, Plain: s.Plain,
		Notes: s.Notes})
	for _, line := range append([]kube.Raw{first}, s.Objects...) {
		w.Write(line) // the error is Flush's
		w.WriteByte('\n')
		bytes += len(line) + 1
	}
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return 0, errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return bytes, nil
}

// Is says whether a text begins as a file of Save does.
func Is(text []byte) bool { return bytes.HasPrefix(text, []byte(`{"format":"skiff-state/`)) }

// Load reads a file that Save wrote, maybe another's.
func Load(path string) (*State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // was only read
	s, _, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// parse reads a file, which may be anything.
func parse(r io.Reader) (s *State, first header, err error) {
	lines := bufio.NewScanner(io.LimitReader(r, MaxBytes+maxLine))
	lines.Buffer(nil, maxLine)
	if !lines.Scan() || !Is(lines.Bytes()) || json.Unmarshal(lines.Bytes(), &first) != nil {
		if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
			return nil, first, err
		}
		return nil, first, errors.New("it is no copy of a cluster: skiff-dev rehearse --save writes one")
	}
	if first.Format != format {
		return nil, first, fmt.Errorf("its format is %s, want %s: take the skiff-dev that wrote it, %s",
			kube.Text(first.Format), format, kube.Text(first.Skiff))
	}
	s = &State{Server: first.Server, Plain: first.Plain, Notes: first.Notes[:min(len(first.Notes), maxNotes)]}
	n := 2
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		o, err := decoded(lines.Bytes())
		if err == nil {
			err = s.add(o)
		}
		if err != nil {
			return nil, first, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, first, fmt.Errorf("line %d: longer than %d MiB", n, maxLine>>20)
	} else if err != nil {
		return nil, first, err
	}
	if len(s.Objects) == 0 {
		return nil, first, errors.New("it has no object")
	}
	return s, first, nil
}

// decoded reads an object.
func decoded(text kube.Raw) (map[string]any, error) {
	v, err := patch.Decode(text)
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("want a JSON object")
	}
	return o, nil
}
