package schema

import (
	"encoding/base64"
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"sync"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
)

func (s *Schema) checkNumber(causes *found, v any, path string) {
	if want, ok := s.outOfFormat(v); ok {
		causes.invalid(nowhere, "", "Checked value must be of type %s with format %s in %s", want, s.format, path)
	}
	i, isInt := v.(int64)
	f, _ := v.(float64)
	if isInt {
		f = float64(i)
	}
	// limit returns the bound as the API server uses it: truncated to an integer for integer values.
	limit := func(bound *float64) (any, float64) {
		if isInt {
			return int64(*bound), math.Trunc(*bound)
		}
		return *bound, *bound
	}
	refuse := func(wrong bool, what string, bound any) {
		if wrong {
			causes.invalid(path, v, "%s in body should be %s %v", path, what, bound)
		}
	}
	if s.multipleOf != nil {
		shown, by := limit(s.multipleOf)
		if by <= 0 {
			causes.invalid(path, shown, "factor MultipleOf declared for %s must be positive: %v", path, shown)
		} else {
			refuse(f/by != math.Trunc(f/by), "a multiple of", shown)
		}
	}
	if s.maximum != nil {
		shown, bound := limit(s.maximum)
		refuse(s.exclusiveMax && f >= bound, "less than", shown)
		refuse(!s.exclusiveMax && f > bound, "less than or equal to", shown)
	}
	if s.minimum != nil {
		shown, bound := limit(s.minimum)
		refuse(s.exclusiveMin && f <= bound, "greater than", shown)
		refuse(!s.exclusiveMin && f < bound, "greater than or equal to", shown)
	}
}

// outOfFormat reports whether a number does not match its format, and the type of the format.
func (s *Schema) outOfFormat(v any) (typ string, wrong bool) {
	f, isFloat := v.(float64)
	i, isInt := v.(int64)
	switch {
	case s.typ == "integer" && (s.format == "int32" || s.format == "int64"):
		if isFloat {
			isInt = f == math.Trunc(f) && math.Abs(f) < 1<<63
			i = int64(f)
		}
		return s.typ, !isInt || (s.format == "int32" && (i > math.MaxInt32 || i < math.MinInt32))
	case s.typ == "number" && s.format == "float":
		return s.typ, isFloat && math.Abs(f) > math.MaxFloat32
	}
	return "", false
}

// They are compiled when they are needed: those that count are large.
var (
	hostname = compiled(
		`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*\.?$`)
	uuid = compiled(`^(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)
	// days matches the durations that the API server accepts besides Go's: "2 days", "1w".
	days = compiled(
		`^[0-9]+ ?(ns|nano|nanosecond|us|µs|micro|microsecond|ms|milli|millisecond|` +
			`s|sec|second|m|min|minute|h|hr|hour|d|day|w|wk|week)s?$`)
)

func compiled(expr string) (matches func(string) bool) {
	re := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
	return func(s string) bool { return re().MatchString(s) }
}

// formats are the string formats that are checked. The API server knows a few more (isbn, creditcard, ssn, colours);
// here they allow everything, like unknown formats.
var formats = map[string]func(string) bool{
	"date-time": isDateTime, "datetime": isDateTime,
	"date": func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil },
	"duration": func(s string) bool {
		_, err := time.ParseDuration(s)
		return err == nil || days(s)
	},
	"ipv4":     func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() },
	"ipv6":     func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is6() },
	"cidr":     func(s string) bool { _, _, err := net.ParseCIDR(s); return err == nil },
	"mac":      func(s string) bool { _, err := net.ParseMAC(s); return err == nil },
	"uri":      func(s string) bool { _, err := url.ParseRequestURI(s); return err == nil },
	"email":    func(s string) bool { a, err := mail.ParseAddress(s); return err == nil && a.Address == s },
	"hostname": func(s string) bool { return len(s) <= 255 && hostname(s) },
	"uuid":     uuid, "uuid3": uuid, "uuid4": uuid, "uuid5": uuid,
	"byte": func(s string) bool { _, err := base64.StdEncoding.DecodeString(s); return err == nil && s != "" },
}

func isDateTime(s string) bool {
	_, err := time.Parse(time.RFC3339Nano, s)
	return err == nil
}

// listTypes checks that no two items of a set are equal, and no two items of a list-type map have the same keys.
func (s *Schema) listTypes(f *found, v any, path string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range obj.Keys(v) {
			if sub := s.properties[name]; sub != nil {
				sub.listTypes(f, v[name], join(path, name))
			} else if s.additional != nil {
				s.additional.listTypes(f, v[name], fmt.Sprintf("%s[%s]", path, name))
			}
		}
	case []any:
		seen := map[string]int{}
		for i, item := range v {
			at := fmt.Sprintf("%s[%d]", path, i)
			if identity, ok := s.identity(item); ok {
				text := obj.Show(identity)
				if seen[text]++; seen[text] == 2 { // once for each value, however often it comes
					f.add(obj.Duplicate(at, identity))
				}
			}
			if s.items != nil {
				s.items.listTypes(f, item, at)
			}
		}
	}
}

func (s *Schema) identity(item any) (any, bool) {
	switch s.listType {
	case "set":
		return item, true
	case "map":
		m, ok := item.(map[string]any)
		key := map[string]any{}
		for _, name := range s.listMapKeys {
			if v, ok := m[name]; ok {
				key[name] = v
			}
		}
		return key, ok
	}
	return nil, false
}

// member returns what a field was.
func member(was *any, name string) *any {
	if was == nil {
		return nil
	}
	object, _ := (*was).(map[string]any)
	if v, ok := object[name]; ok {
		return &v
	}
	return nil
}

// itemsBefore returns what the items of a list were, by their keys: nil for other lists.
func (s *Schema) itemsBefore(was *any) map[string]*any {
	if was == nil || s.listType != "map" {
		return nil
	}
	list, _ := (*was).([]any)
	out := make(map[string]*any, len(list))
	for i := len(list) - 1; i >= 0; i-- { // the first of equal ones
		if key, ok := s.identity(list[i]); ok {
			out[obj.Show(key)] = &list[i]
		}
	}
	return out
}

func (s *Schema) itemBefore(old map[string]*any, item any) *any {
	if old == nil {
		return nil
	}
	key, _ := s.identity(item)
	return old[obj.Show(key)]
}
