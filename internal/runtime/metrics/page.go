// Package metrics writes metrics in the text format of Prometheus, and measures the Go runtime and the process.
//
// Its job: histograms that are cheap to observe, a Page that collects the samples of one scrape by family, and the
// families go_* and process_* under the names that dashboards know. It does not know what the program counts (package
// manager asks the parts of the program and fills the Page) and it serves nothing. There is no registry: what is
// counted belongs to the package that counts it, as atomics or under a lock that is taken anyway, and is read when
// Prometheus scrapes.
//
// It has no goroutine. Observe may be called from any; a Page belongs to the goroutine that scrapes.
package metrics

import (
	"bytes"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ContentType is the media type of what Page.WriteTo writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is the type of a family.
type Kind string

// The kinds of families.
const (
	CounterKind   Kind = "counter"
	GaugeKind     Kind = "gauge"
	HistogramKind Kind = "histogram"
	SummaryKind   Kind = "summary"
)

// maxLabel bounds the value of a label, in bytes: more than the name of any object.
const maxLabel = 256

// Family is what all samples of one name have in common. Its address identifies it.
type Family struct {
	Name string
	Kind Kind
	Help string
}

// Page is one scrape. The zero value is empty.
type Page struct {
	families map[*Family]*bytes.Buffer
	out      bytes.Buffer // of WriteTo
}

// Reset takes all samples away and keeps the memory, and the families: they stay declared.
func (p *Page) Reset() {
	for _, b := range p.families {
		b.Reset()
	}
}

// Declare makes the family appear although it may have no samples.
func (p *Page) Declare(f *Family) { p.of(f) }

// Add adds a sample. labels are names and values in turn.
func (p *Page) Add(f *Family, value float64, labels ...string) {
	line(p.of(f), f.Name, "", value, labels)
}

// Flag adds 1 for true and 0 for false.
func (p *Page) Flag(f *Family, value bool, labels ...string) {
	if value {
		p.Add(f, 1, labels...)
	} else {
		p.Add(f, 0, labels...)
	}
}

// Histogram adds all samples of a histogram.
func (p *Page) Histogram(f *Family, h *Histogram, labels ...string) {
	b := p.of(f)
	within := append(slices.Clip(labels), "le", "+Inf")
	total := uint64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
		if i < len(h.bounds) {
			within[len(labels)+1] = number(h.bounds[i])
		} else {
			within[len(labels)+1] = "+Inf"
		}
		line(b, f.Name, "_bucket", float64(total), within)
	}
	line(b, f.Name, "_sum", h.sum(), labels)
	line(b, f.Name, "_count", float64(total), labels)
}

// WriteTo writes the page, sorted by family.
func (p *Page) WriteTo(w io.Writer) (int64, error) {
	p.out.Reset()
	for _, f := range slices.SortedFunc(maps.Keys(p.families), func(a, b *Family) int {
		return strings.Compare(a.Name, b.Name)
	}) {
		p.out.WriteString("# HELP " + f.Name + " " + helpEscape.Replace(f.Help) + "\n")
		p.out.WriteString("# TYPE " + f.Name + " " + string(f.Kind) + "\n")
		p.out.Write(p.families[f].Bytes())
	}
	return p.out.WriteTo(w)
}

func (p *Page) of(f *Family) *bytes.Buffer {
	if p.families == nil {
		p.families = map[*Family]*bytes.Buffer{}
	}
	b := p.families[f]
	if b == nil {
		b = &bytes.Buffer{}
		p.families[f] = b
	}
	return b
}

var (
	helpEscape  = strings.NewReplacer("\\", `\\`, "\n", `\n`)
	labelEscape = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)
)

// line writes a sample of the family, whose name may have a suffix.
func line(b *bytes.Buffer, family, suffix string, value float64, labels []string) {
	b.WriteString(family)
	b.WriteString(suffix)
	for i := 0; i+1 < len(labels); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(labels[i])
		b.WriteString(`="`)
		b.WriteString(labelEscape.Replace(labelValue(labels[i+1])))
		b.WriteByte('"')
	}
	if len(labels) > 1 {
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	b.Write(appendNumber(b.AvailableBuffer(), value))
	b.WriteByte('\n')
}

// labelValue is a value as it is served: a text of others must be UTF-8, and not make a scrape long.
func labelValue(v string) string {
	if len(v) > maxLabel {
		v = v[:maxLabel]
	}
	return strings.ToValidUTF8(v, "\uFFFD")
}

// appendNumber appends a value in the form of the format, which is also that of Go: 1, 0.005, 1.5e+09, +Inf, NaN.
func appendNumber(b []byte, v float64) []byte {
	if v == float64(int64(v)) && v < 1e15 && v > -1e15 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

func number(v float64) string { return string(appendNumber(nil, v)) }

// Histogram counts durations by how long they were. It is made by NewHistogram; Observe may be called from any
// goroutine.
type Histogram struct {
	bounds []float64       // seconds, ascending; the last bucket has no bound
	counts []atomic.Uint64 // one more than bounds; each without those of the buckets before
	nanos  atomic.Int64    // the sum: 292 years
}

// NewHistogram returns a histogram with these upper bounds of its buckets, in seconds and ascending.
func NewHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts a duration. It takes two atomic additions and a search of the bounds.
func (h *Histogram) Observe(d time.Duration) {
	bucket, _ := slices.BinarySearch(h.bounds, d.Seconds())
	h.counts[bucket].Add(1)
	h.nanos.Add(int64(d))
}

// Count returns how many durations were observed.
func (h *Histogram) Count() (total uint64) {
	for i := range h.counts {
		total += h.counts[i].Load()
	}
	return total
}

// Within returns the least bound that at least a part of the durations, 0 to 1, did not exceed; false: it is longer
// than all bounds, or nothing was observed.
func (h *Histogram) Within(part float64) (time.Duration, bool) {
	least, seen := part*float64(h.Count()), uint64(0)
	for i, bound := range h.bounds {
		if seen += h.counts[i].Load(); seen > 0 && float64(seen) >= least {
			return time.Duration(bound * float64(time.Second)), true
		}
	}
	return 0, false
}

func (h *Histogram) sum() float64 { return float64(h.nanos.Load()) / float64(time.Second) }

// Since returns what was observed after earlier, which is an older copy of h, or nil for all of it.
func (h *Histogram) Since(earlier *Histogram) *Histogram {
	out := NewHistogram(h.bounds)
	for i := range h.counts {
		n := h.counts[i].Load()
		if earlier != nil {
			n -= min(n, earlier.counts[i].Load()) // those of a controller that has gone are missing
		}
		out.counts[i].Store(n)
	}
	return out
}

// Merge adds the counts of another histogram with the same bounds.
func (h *Histogram) Merge(o *Histogram) {
	for i := range o.counts {
		h.counts[i].Add(o.counts[i].Load())
	}
}

// Exponential returns n bounds, of which each is factor times the one before.
func Exponential(first, factor float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		// Rounded, so that a bound reads 1e-07 and not 9.999999999999999e-08.
		out[i] = rounded(first * math.Pow(factor, float64(i)))
	}
	return out
}

func rounded(v float64) float64 {
	scale := math.Pow(10, 12-math.Ceil(math.Log10(v)))
	return math.Round(v*scale) / scale
}

// Counts are the counters of one family, one for each value of a label. They are made by NewCounts; Inc may be called
// from any goroutine.
type Counts struct {
	family *Family
	label  string
	values []string
	n      []atomic.Uint64 // of each value
}

// NewCounts returns counters that are all zero. There are no other values of the label than these.
func NewCounts(f *Family, label string, values ...string) *Counts {
	return &Counts{family: f, label: label, values: values, n: make([]atomic.Uint64, len(values))}
}

// Inc counts one. A nil Counts counts nothing.
func (c *Counts) Inc(value string) {
	if c != nil {
		c.n[slices.Index(c.values, value)].Add(1)
	}
}

// Counts adds counters with their values.
func (p *Page) Counts(c *Counts, labels ...string) {
	labels = slices.Clip(labels)
	for i, value := range c.values {
		p.Add(c.family, float64(c.n[i].Load()), append(labels, c.label, value)...)
	}
}
