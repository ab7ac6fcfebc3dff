package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
)

// FollowFiles has s run the controllers of files as the files change, until ctx ends; now asks for reading at once.
// Where a file has a mistake, the controllers of before go on.
func (s *Supervisor) FollowFiles(ctx context.Context, files []string, now <-chan os.Signal) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	before := stateOf(files)
	for {
		select {
		case <-look.C:
			if stateOf(files) == before {
				continue
			}
		case <-now:
		case <-ctx.Done():
			return
		}
		before = stateOf(files)
		s.readAgain(files)
	}
}

// readAgain reads the files and runs the declared controllers.
func (s *Supervisor) readAgain(files []string) {
	controllers, warnings, err := spec.ReadFiles(files)
	if err == nil && len(controllers) == 0 { // as while a file is being written
		err = errors.New("there is no CompositeController or DecoratorController in them")
	}
	if err != nil {
		s.o.Log.Info("the files of the hook controllers have a mistake: what ran before goes on",
			kube.Warn("error", err.Error())...)
		return
	}
	for _, w := range warnings {
		s.o.Log.V(1).Info("skipped", "text", w)
	}
	there := map[string]bool{}
	for _, c := range controllers {
		there[nameOf(c.Kind, c.Name)] = true
		s.Put(c)
	}
	wanted, _ := s.snapshot()
	for name, c := range wanted {
		if !there[name] {
			s.Drop(c.spec.Kind, c.spec.Name)
		}
	}
	s.o.Log.Info("read the files of the hook controllers again", "controllers", len(controllers))
}

// stateOf is another text when a file has changed. A directory counts with the files inside.
func stateOf(files []string) string {
	var out strings.Builder
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			note(&out, file, info)
			continue
		}
		for _, dir := range spec.Directories(file) {
			entries, _ := os.ReadDir(dir) // an unreadable file is named when the content is read
			for _, e := range entries {
				if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil {
					note(&out, e.Name(), info)
				}
			}
		}
	}
	return out.String()
}

func note(out *strings.Builder, name string, info fs.FileInfo) {
	fmt.Fprintf(out, "%s %d %d;", name, info.Size(), info.ModTime().UnixNano())
}
