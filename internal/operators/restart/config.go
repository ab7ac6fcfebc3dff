package restart

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

const (
	// maxItems bounds spec.source.configMaps and spec.source.secrets, maxKeys the keys of an item.
	maxItems = 50
	maxKeys  = 50
	// maxConfigs bounds the ConfigMaps, Secrets and keys that a trigger remembers each, at some 30 bytes each.
	maxConfigs = 200
	// maxGone is how many deleted sources are remembered, to find the same content again.
	maxGone = 50
	// settling is how old a trigger must be for a source older than the trigger to appear: watches of two resources
	// are not in step, and the trigger may be seen first.
	settling = time.Minute
)

// wanted is a checked item of spec.source.configMaps or spec.source.secrets.
type wanted struct {
	kind     string // "configmap" or "secret"
	name     string // "": all that the selector matches
	selector labels.Requirements
	keys     []string // empty: all
}

// String returns the item for people: "configmap/app (log.conf)", "secrets with team=a".
func (w wanted) String() string {
	if w.name == "" {
		return sources.WithKeys(w.kind+"s with "+w.selector.String(), w.keys)
	}
	return sources.WithKeys(w.kind+"/"+w.name, w.keys)
}

// newWanted checks the ConfigMaps and Secrets of a spec. An error names the field.
func newWanted(s *SourceSpec) (all []wanted, err error) {
	for _, list := range []struct {
		field, kind string
		items       []ConfigSource
	}{{"configMaps", sources.ConfigMapKind, s.ConfigMaps}, {"secrets", sources.SecretKind, s.Secrets}} {
		field := "spec.source." + list.field
		if len(list.items) > maxItems {
			return nil, fmt.Errorf("%s: at most %d items, there are %d; use selectors", field, maxItems,
				len(list.items))
		}
		for i, item := range list.items {
			w := wanted{list.kind, item.Name, item.Selector.Requirements(), item.Keys}
			if err := w.check(); err != nil {
				return nil, fmt.Errorf("%s[%d]%w", field, i, err)
			}
			all = append(all, w)
		}
	}
	return all, nil
}

// check checks an item. An error begins with a field of the item.
func (w wanted) check() error {
	switch {
	case (w.name == "") == (len(w.selector) == 0):
		return errors.New(": exactly one of name and selector is needed, and a selector must not be empty")
	case w.name != "" && !kube.ValidName(w.name):
		return fmt.Errorf(".name: %.100q is not the name of a %s", w.name, w.kind)
	case len(w.keys) > maxKeys:
		return fmt.Errorf(".keys: at most %d, there are %d; leave keys out for all", maxKeys, len(w.keys))
	}
	for _, key := range w.keys {
		if !sources.ValidKey(key) {
			return fmt.Errorf(".keys: %.100q is not a key of a %s", key, w.kind)
		}
	}
	if w.name == "" {
		if err := checkSelector(w.selector); err != nil {
			return fmt.Errorf(".selector: %w", err)
		}
	}
	return nil
}

// configIdentity identifies items; "": there are none.
func configIdentity(all []wanted) string {
	if len(all) == 0 {
		return ""
	}
	var parts []string
	for _, w := range all {
		parts = append(parts, w.kind, w.name, w.selector.String(), strings.Join(w.keys, ","))
	}
	return hash(parts...)
}

// config is a ConfigMap or Secret that a trigger watches, as found.
type config struct {
	name   string   // "configmap/app"
	keys   []string // in order; "" alone: all
	there  bool
	born   time.Time          // when the object was created
	values []kube.NamedDigest // in order
}

// The hashes of no content.
const (
	absent = ""  // there is no such source
	noKey  = "-" // the source does not have the key
)

// hash returns the hash by which the source, or a key of the source, is remembered.
func (c *config) hash(namespace, key string) string {
	if !c.there {
		return absent
	}
	return cmp.Or(sources.Hash(namespace, c.name, key, c.values), noKey)
}

// entryName is the name by which a source, or a key of a source, is remembered: "configmap/app", "secret/tls:tls.crt".
func entryName(source, key string) string {
	if key == "" {
		return source
	}
	return source + ":" + key
}

// noticeConfigs compares the sources with the known content, and returns the content now known and the changes. before
// has the values of sources as last seen by this process, for the names of keys.
//
// No change is: a source named or selected since the spec was changed, as nothing is known; a source or a key that is
// gone, without which pods might not start; and a source older than a trigger made just now, which is seen late.
func noticeConfigs(r *rule, known configDigest, found []config, before map[string][]kube.NamedDigest,
	now time.Time) (next configDigest, changes []Change) {
	next = configDigest{r.configID, map[string]string{}}
	first := known.id != r.configID
	for i := range found {
		c := &found[i]
		var keys []string
		appeared := false
		late := now.Sub(r.born) < settling && !c.born.After(r.born)
		for _, key := range c.keys {
			name, is := entryName(c.name, key), c.hash(r.namespace, key)
			was, had := known.hashes[name]
			switch {
			case had && (is == absent || is == noKey && was != absent): // gone
				is = was
			case !had && first, is == was, is == noKey, was == absent && late: // recorded
			default:
				keys, appeared = append(keys, key), appeared || was == absent
			}
			next.hashes[name] = is
		}
		if len(keys) > 0 {
			changes = append(changes, c.changed(keys, appeared, before))
		}
	}
	if !first {
		next.keep(known)
	}
	return next, changes
}

// changed is the change of a source in keys, or as a whole where the key is "".
func (c *config) changed(keys []string, appeared bool, before map[string][]kube.NamedDigest) Change {
	words := strings.Replace(c.name, "/", " ", 1)
	old, known := before[c.name]
	switch {
	case keys[0] != "":
		words = sources.WithKeys(words+" changed", keys)
	case appeared:
		words += " is new"
	case known:
		words = sources.WithKeys(words+" changed", sources.Differing(old, c.values))
	default:
		words += " changed"
	}
	return Change{Reason: ConfigChanged, Source: c.name, Note: words}
}

// configDigest is the known content of sources: a hash for each, by entryName.
//
// As text a configDigest is a line, "v1 ID NAME=HASH ...", sorted by name.
type configDigest struct {
	id     string // of the items of the spec, see configIdentity
	hashes map[string]string
}

const configVersion = "v1"

// keep takes over the hashes of deleted sources, so that the same content made anew is no change.
func (d configDigest) keep(known configDigest) {
	gone := 0
	for _, name := range slices.Sorted(maps.Keys(known.hashes)) {
		_, there := d.hashes[name]
		if was := known.hashes[name]; !there && was != absent && was != noKey && gone < maxGone {
			d.hashes[name] = was
			gone++
		}
	}
}

// encode returns the text.
func (d configDigest) encode() string {
	words := []string{configVersion, d.id}
	for _, name := range slices.Sorted(maps.Keys(d.hashes)) {
		words = append(words, name+"="+d.hashes[name])
	}
	return strings.Join(words, " ")
}

// decodeConfigs reads the text; a text that is not of skiff, for example empty because the trigger is new, knows
// nothing.
func decodeConfigs(text string) (d configDigest) {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != configVersion {
		return d
	}
	d = configDigest{words[1], make(map[string]string, len(words)-2)}
	for _, w := range words[2:] {
		name, hash, ok := strings.Cut(w, "=")
		if !ok {
			return configDigest{}
		}
		d.hashes[name] = hash
	}
	return d
}

// bounded returns the sources within maxConfigs, and how many there are in all: a key counts as one.
func bounded(all []config) (within []config, count int) {
	for _, c := range all {
		n := len(c.keys)
		if left := maxConfigs - count; left > 0 {
			c.keys = c.keys[:min(n, left)]
			within = append(within, c)
		}
		count += n
	}
	return within, count
}
