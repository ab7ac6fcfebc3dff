package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM writes the bill of materials of all binaries together: the modules and the Go version that the linker
// recorded in them.
func (r release) writeBOM() error {
	files, err := r.binaries()
	if err != nil {
		return err
	}
	modules := map[string]cyclonedx.Component{}
	for _, file := range files {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the modules of %s: %w", file, err)
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				return fmt.Errorf("%s: module %s is replaced by %s", file, m.Path, m.Replace.Path)
			}
			modules[m.Path] = component("golang", m.Path, m.Version)
		}
		modules["std"] = component("golang", "std", strings.TrimPrefix(info.GoVersion, "go"))
	}
	skiff := component("generic", "skiff", r.version)
	skiff.Type = cyclonedx.ComponentTypeApplication
	skiff.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	if r.commit != "" {
		skiff.Properties = &[]cyclonedx.Property{{Name: "commit", Value: r.commit}}
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &skiff}
	var components []cyclonedx.Component
	var needs []string
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		components, needs = append(components, modules[path]), append(needs, modules[path].BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: skiff.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, "skiff.cdx.json"), out.Bytes(), 0o644)
}

// component describes a module by its package URL.
func component(kind, name, version string) cyclonedx.Component {
	url := "pkg:" + kind + "/" + name + "@" + version
	return cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: name, Version: version,
		PackageURL: url}
}
