package restart

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// digest is what is known of the source pods: of each that has run, by name, enough to tell whether it is still the
// same.
//
// As text it is one line, "v2 SOURCE NEWEST NAME=UID,RESTARTS,IP,FLAGS ...", sorted by name. The line is bounded:
// with more pods than the limit, or if it would become longer than maxDigest, it ends after NEWEST. A process that
// starts from such a line only knows that a pod is new if it was created later than NEWEST, a time in whole
// seconds; it does not learn of restarts, addresses and deletions that happened before. A running process has
// everything in memory, and misses nothing.
type digest struct {
	source string           // what the rest is about; another source begins anew
	newest time.Time        // when the newest pod that ran was created
	pods   map[string]entry // nil: too many
}

// entry is one pod.
type entry struct {
	uid      string // hashed, like ip
	restarts int32
	ip       string // "": not known
	gone     bool   // the pod with this uid is not there any more
	lasting  bool   // its name can come back: a StatefulSet's pod, or a bare one
}

const (
	// maxDigest is a fraction of what an object in etcd may have (1.5 MiB), at the longest names that pods can have.
	maxDigest = 64 << 10

	digestVersion = "v2"
	flagGone      = "g"
	flagLasting   = "l"
)

// hash shortens what parts are to 40 bits: a value is compared with one other, never searched for among many.
func hash(parts ...string) string {
	h := fnv.New64a()
	for _, s := range parts {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return strconv.FormatUint(h.Sum64()>>24, 36)
}

// encode returns the text, with at most limit pods one by one.
func (d digest) encode(limit int) string {
	newest := "-"
	if !d.newest.IsZero() {
		newest = strconv.FormatInt(d.newest.Unix(), 10)
	}
	head := strings.Join([]string{digestVersion, d.source, newest}, " ")
	if d.pods == nil || len(d.pods) > limit {
		return head + " +"
	}
	var b strings.Builder
	b.WriteString(head)
	for _, name := range slices.Sorted(maps.Keys(d.pods)) {
		e := d.pods[name]
		fmt.Fprintf(&b, " %s=%s,%d,%s,", name, e.uid, e.restarts, e.ip)
		if e.gone {
			b.WriteString(flagGone)
		}
		if e.lasting {
			b.WriteString(flagLasting)
		}
		if b.Len() > maxDigest {
			return head + " +"
		}
	}
	return b.String()
}

// decodeDigest reads the text; false if it is not one of ours, for example empty because the trigger is new.
func decodeDigest(text string) (digest, bool) {
	words := strings.Fields(text)
	if len(words) < 3 || words[0] != digestVersion {
		return digest{}, false
	}
	d := digest{source: words[1]}
	if words[2] != "-" {
		n, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return digest{}, false
		}
		d.newest = time.Unix(n, 0).UTC()
	}
	if len(words) > 3 && words[3] == "+" {
		return d, true
	}
	d.pods = make(map[string]entry, len(words)-3)
	for _, w := range words[3:] {
		name, rest, _ := strings.Cut(w, "=")
		parts := strings.Split(rest, ",")
		if len(parts) != 4 {
			return digest{}, false
		}
		n, err := strconv.ParseInt(parts[1], 10, 32)
		if err != nil {
			return digest{}, false
		}
		d.pods[name] = entry{uid: parts[0], restarts: int32(n), ip: parts[2],
			gone: strings.Contains(parts[3], flagGone), lasting: strings.Contains(parts[3], flagLasting)}
	}
	return d, true
}
