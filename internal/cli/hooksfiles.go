package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"skiff/internal/hooks/spec"
	"skiff/internal/install/manifests"
)

// maxHookFiles bounds the names and the content of all files. A ConfigMap takes 1 MiB, and kubectl apply stores the
// files twice.
const maxHookFiles = 480 << 10

// configMapKey is what the server takes as a key of a ConfigMap.
var configMapKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)

// hookFiles are the files of --sidecar or --runtime: the controllers, and the programs of --runtime.
func (f *hooksManifestsFlags) hookFiles(controllers []*spec.Controller) (*manifests.HookFiles, error) {
	if f.sidecar == "" && f.runtime == "" {
		return nil, nil
	}
	h := &manifests.HookFiles{Files: map[string]string{}, Directory: f.directory, Sidecar: f.sidecar,
		Runtime: f.runtime}
	if f.runtime != "" {
		if err := f.addPrograms(h.Files, controllers); err != nil {
			return nil, Usagef("--runtime: %w", err)
		}
	}
	for _, c := range controllers {
		h.Files[controllerFile(c)] = plainJSON(c.Object)
	}
	return h, nil
}

// controllerFile is the name of the file of a controller in the ConfigMap.
func controllerFile(c *spec.Controller) string {
	return strings.ToLower(c.Kind) + "-" + c.Name + ".json"
}

// addPrograms adds the files beside the controllers' programs: a script may read any of them.
func (f *hooksManifestsFlags) addPrograms(files map[string]string, controllers []*spec.Controller) error {
	dir := ""
	for _, c := range controllers {
		for _, h := range c.Hooks() {
			if h.Exec == nil {
				continue
			}
			if dir != "" && h.Exec.Dir != dir {
				return fmt.Errorf("the programs are in %s and in %s, and a ConfigMap is one directory: print the "+
					"manifests of each with a --name of its own", dir, h.Exec.Dir)
			}
			dir = h.Exec.Dir
		}
	}
	if dir == "" {
		return fmt.Errorf("no hook runs a program; leave it out")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	size := 0
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(dir, name)
		if !configMapKey.MatchString(name) || strings.HasPrefix(name, ".") {
			continue
		}
		info, err := os.Stat(path) // of what a link leads to
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || isManifest(path) {
			continue // a module in a directory needs an image; the hook says so when looking for the module
		}
		if size += len(name) + int(min(info.Size(), maxHookFiles+1)); size > maxHookFiles {
			return fmt.Errorf("the files of %s have more than %d KiB, which a ConfigMap does not take: make an image "+
				"of them and leave --runtime out", dir, maxHookFiles>>10)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !utf8.Valid(text) {
			return fmt.Errorf("%s is no text, and so not for a ConfigMap: make an image of it and leave --runtime out",
				path)
		}
		files[name] = string(text)
	}
	return nil
}

// isManifest says whether skiff would read a file as objects of Kubernetes. The controllers among them are added by
// their names, and the others are not for the pod.
func isManifest(path string) bool {
	if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
		return false
	}
	objects, err := spec.ReadObjects([]string{path})
	return err == nil && len(objects) > 0
}
