package kinds

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// crdDefaults sets the names that derive from the kind.
func crdDefaults(s scope) {
	if kind := obj.String(s.o, "spec", "names", "kind"); kind != "" {
		obj.Default(s.o, strings.ToLower(kind), "spec", "names", "singular")
		obj.Default(s.o, kind+"List", "spec", "names", "listKind")
	}
}

// SelectablePaths returns the paths of the fields that a version's field selectors may name besides metadata.
func SelectablePaths(version Object) [][]string {
	return obj.Each(obj.Maps(version, "selectableFields"), func(f Object) []string {
		return strings.Split(strings.TrimPrefix(obj.String(f, "jsonPath"), "."), ".")
	})
}

// maxSelectable is how many selectable fields a version may have.
const maxSelectable = 8

// selectableRules checks the selectable fields of a version by its schema.
func selectableRules(s scope, version Object, schema *schema.Schema, path string) {
	seen := map[string]bool{}
	for i, f := range SelectablePaths(version) {
		at, text := fmt.Sprintf("%s[%d].jsonPath", path, i), "."+strings.Join(f, ".")
		switch typ, ok := schema.TypeAt(f); {
		case text == ".":
			s.add(obj.Required(at, ""))
		case !ok:
			s.invalid(at, text, "is an invalid path: does not refer to a valid field")
		case f[0] == "metadata":
			s.invalid(at, text, "must not point to fields in metadata")
		case typ != "string" && typ != "boolean" && typ != "integer":
			s.invalid(at, text, "must point to a field of type string, boolean or integer. "+
				"Enum string fields and strings with formats are allowed.")
		case seen[text]:
			s.add(obj.Duplicate(at, text))
		}
		seen[text] = true
	}
	if len(seen) > maxSelectable {
		s.add(obj.TooMany(path, int64(len(seen)), maxSelectable))
	}
}

// versionRules are those about the versions of a definition, and their schemas.
func versionRules(s scope) {
	spec := obj.Map(s.root, "spec")
	versions := obj.Maps(spec, "versions")
	if len(versions) == 0 {
		s.add(obj.Required("spec.versions", "must have at least one version"))
		return
	}
	if causes := schema.TooMuch(spec["versions"]); causes != nil {
		s.add(causes...)
		return
	}
	stored, shared, sharedFields := 0, true, true
	names := map[string]bool{}
	for i, v := range versions {
		if obj.Bool(v, "storage") {
			stored++
		}
		name := obj.String(v, "name")
		if why := obj.Label1035(name); why != "" {
			s.invalid(fmt.Sprintf("spec.versions[%d].name", i), name, why)
		}
		if names[name] {
			s.invalid("spec.versions", versions[i], "must contain unique version names")
		}
		names[name] = true
		shared = shared && patch.Equal(v["schema"], versions[0]["schema"])
		sharedFields = sharedFields && patch.Equal(v["selectableFields"], versions[0]["selectableFields"])
	}
	if stored != 1 {
		s.invalid("spec.versions", spec["versions"], "must have exactly one version marked as storage version")
	}
	for i, v := range versions {
		path := "spec.validation.openAPIV3Schema"
		if !shared {
			path = fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i)
		}
		raw := obj.Get(v, "schema", "openAPIV3Schema")
		if raw == nil {
			s.add(obj.Required(fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i), "schemas are required"))
			continue
		}
		parsed, causes := schema.Parse(raw, path)
		if i == 0 || !shared {
			s.add(causes...)
		}
		if at := fmt.Sprintf("spec.versions[%d].selectableFields", i); len(causes) == 0 && (i == 0 || !sharedFields) {
			if sharedFields {
				at = "spec.selectableFields"
			}
			selectableRules(s, v, parsed, at)
		}
	}
}

// storedVersions notes in the status of a definition that objects are stored in its storage version from now on.
func storedVersions(s scope) {
	stored := obj.Slice(s.root, "status", "storedVersions")
	for _, v := range obj.Maps(s.root, "spec", "versions") {
		if name := v["name"]; obj.Bool(v, "storage") && !slices.Contains(stored, name) {
			obj.Set(s.root, append(slices.Clone(stored), name), "status", "storedVersions")
		}
	}
}

var kubeVersion = regexp.MustCompile(`^v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?$`)

// CompareVersions orders the versions of a group as discovery does: v2, v1, v1beta2, v1beta1, v1alpha1, then others.
func CompareVersions(a, b string) int {
	rank := func(version string) []int {
		m := kubeVersion.FindStringSubmatch(version)
		if m == nil {
			return nil
		}
		major, _ := strconv.Atoi(m[1]) // of digits alone
		minor, _ := strconv.Atoi(m[3])
		return []int{map[string]int{"": 3, "beta": 2, "alpha": 1}[m[2]], major, minor}
	}
	return cmp.Or(slices.Compare(rank(b), rank(a)), strings.Compare(a, b))
}

// CustomColumns returns the additionalPrinterColumns of a version of a definition. Without any it is the age, as on
// the real server.
func CustomColumns(version Object) []Column {
	var out []Column
	for _, c := range obj.Maps(version, "additionalPrinterColumns") {
		path, kind := obj.String(c, "jsonPath"), obj.String(c, "type")
		out = append(out, Column{Name: obj.String(c, "name"), Type: kind, Format: obj.String(c, "format"),
			Description: cmp.Or(obj.String(c, "description"),
				"Custom resource definition column (in JSONPath format): "+path),
			Priority: int(obj.Number(c, "priority")), Cell: customCell(path, kind)})
	}
	if out == nil {
		out = append(out, Column{Name: "Age", Type: "date",
			Description: "CreationTimestamp is a timestamp representing the server time when this object was created.",
			Cell:        customCell(".metadata.creationTimestamp", "date")})
	}
	return out
}

// customCell formats the value at a path. A missing value, or one that is not of the column's type, gives an empty
// cell.
func customCell(text, kind string) func(Object, time.Time) any {
	p, ok := parseJSONPath(text)
	return func(o Object, now time.Time) any {
		if !ok {
			return nil
		}
		v := p.get(o)
		switch kind {
		case "integer":
			if n, ok := integer(v); ok {
				return n
			}
		case "number":
			switch v.(type) {
			case int64, float64:
				return v
			}
		case "boolean":
			if b, ok := v.(bool); ok {
				return b
			}
		case "date":
			if s, ok := v.(string); ok {
				if _, err := time.Parse(time.RFC3339, s); err != nil {
					return "<invalid>"
				}
				return Since(s, now)
			}
		case "string":
			switch v.(type) {
			case nil:
			case Object, []any:
				return obj.Show(v)
			default:
				return shown(v)
			}
		}
		return nil
	}
}

// jsonPathStep is a step of the subset of JSONPath that printer columns use: .a, ['a.b'] or [0], [*], and
// [?(@.type=="Ready")].
var jsonPathStep = regexp.MustCompile(
	`^(?:\.([^.[]*)|\[(?:['"]([^]]+)['"]|([-+]?\d+))\]|\[(\*)\]|\[\?\(@\.([^]=]*)==([^]]*)\)\])`)

// parseJSONPath parses steps. ok is false for another path.
func parseJSONPath(text string) (p path, ok bool) {
	for text != "" {
		m := jsonPathStep.FindStringSubmatch(text)
		if m == nil {
			return p, false
		}
		switch text = text[len(m[0]):]; {
		case m[1] != "":
			p.steps = append(p.steps, step{key: m[1]})
		case m[2] != "" || m[3] != "":
			p.steps = append(p.steps, step{key: strings.ReplaceAll(m[2]+m[3], `\.`, "."), dots: true})
		case m[4] != "":
			p.steps = append(p.steps, step{each: '['})
		case m[5] != "":
			p.steps = append(p.steps, step{each: '[', field: strings.Split(strings.TrimSpace(m[5]), "."),
				is: strings.Trim(strings.TrimSpace(m[6]), `"'`)})
		}
	}
	return p, true
}
