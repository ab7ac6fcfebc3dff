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

// writeBOM writes the bill of materials of all binaries of a program together: the modules and the Go version that the
// linker recorded in them.
func (r release) writeBOM(p program) error {
	modules := map[string]cyclonedx.Component{}
	for _, platform := range r.platforms {
		file := r.binary(p, platform)
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the modules of %s: %w", file, err)
		}
		for _, m := range info.Deps {
			if m.Path == "skiff" { // the repository itself, of which skiff-dev with CEL is a nested module
				continue
			}
			version := m.Version
			if m.Replace != nil {
				if version = m.Replace.Version; m.Replace.Path != m.Path {
					return fmt.Errorf("%s: module %s is replaced by %s", file, m.Path, m.Replace.Path)
				}
			}
			modules[m.Path] = component("golang", m.Path, version)
		}
		modules["std"] = component("golang", "std", strings.TrimPrefix(info.GoVersion, "go"))
	}
	whole := component("generic", p.name, r.version)
	whole.Type = cyclonedx.ComponentTypeApplication
	whole.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	if r.commit != "" {
		whole.Properties = &[]cyclonedx.Property{{Name: "commit", Value: r.commit}}
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &whole}
	var components []cyclonedx.Component
	var needs []string
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		components, needs = append(components, modules[path]), append(needs, modules[path].BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: whole.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, p.name+".cdx.json"), out.Bytes(), 0o644)
}

// component describes a module by its package URL.
func component(kind, name, version string) cyclonedx.Component {
	url := "pkg:" + kind + "/" + name + "@" + version
	return cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: name, Version: version,
		PackageURL: url}
}
