package metrics

import (
	"slices"
	"sync/atomic"
)

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
