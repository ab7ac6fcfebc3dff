package reload

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"skiff/internal/runtime/kube"
)

// Share is how many workloads may roll at a time: a number, or a part of all.
type Share struct {
	n       int
	percent bool
}

// DefaultShare is few enough that a bad change is seen before most workloads have it.
var DefaultShare = Share{n: 10}

var shareForm = regexp.MustCompile(`^([0-9]+)(%?)$`)

// ParseShare reads "10" or "20%".
func ParseShare(share string) (Share, error) {
	if m := shareForm.FindStringSubmatch(share); m != nil {
		n, err := strconv.Atoi(m[1])
		if s := (Share{n, m[2] != ""}); err == nil && n > 0 && (n <= 100 || !s.percent) {
			return s, nil
		}
	}
	return Share{}, fmt.Errorf("%.100q: want a number of at least 1, or a percentage such as 20%%", share)
}

// String returns the share in the form of ParseShare.
func (s Share) String() string {
	if s.percent {
		return strconv.Itoa(s.n) + "%"
	}
	return strconv.Itoa(s.n)
}

// of returns how many of some workloads may roll, at least one.
func (s Share) of(all int) int {
	if s.percent {
		return max(1, all*s.n/100)
	}
	return s.n
}

// id names a workload.
type id struct {
	kind string
	kube.Key
}

// wave knows which workloads roll out because of a restart, and which wait for their turn, in the order of their
// coming. All follows from the workloads, and is there again after a start when each was looked at once, which takes
// less time than the first restart waits.
type wave struct {
	share Share
	count func(namespace string) int // of the workloads with annotations; "": everywhere

	mu      sync.Mutex // guards what follows
	rolling map[string]map[id]bool
	total   int // of rolling
	waiting map[string][]id
}

func newWave(share Share, count func(namespace string) int) *wave {
	return &wave{share: share, count: count, rolling: map[string]map[id]bool{}, waiting: map[string][]id{}}
}

// note notes whether a workload rolls out.
func (w *wave) note(of id, rolls bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(of, rolls)
}

func (w *wave) noteLocked(of id, rolls bool) {
	in := w.rolling[of.Namespace]
	switch {
	case in[of] == rolls:
	case rolls:
		if in == nil {
			in = map[id]bool{}
			w.rolling[of.Namespace] = in
		}
		in[of] = true
		w.total++
	default:
		w.total--
		if delete(in, of); len(in) == 0 {
			delete(w.rolling, of.Namespace)
		}
	}
}

// enter lets a workload roll out in turn, and otherwise puts the workload into the line; limit is how many may roll.
func (w *wave) enter(of id) (entered bool, limit int) {
	mine, all := w.limits(of.Namespace)
	w.mu.Lock()
	defer w.mu.Unlock()
	line := w.waiting[of.Namespace]
	at := slices.Index(line, of)
	if at < 0 {
		at = len(line)
		w.waiting[of.Namespace] = append(line, of)
	}
	rolls := len(w.rolling[of.Namespace])
	if free := w.freeLocked(rolls, mine, all); at >= free && !w.rolling[of.Namespace][of] {
		return false, min(mine, all)
	}
	w.noteLocked(of, true)
	w.leaveLineLocked(of)
	return true, 0
}

// limits returns how many workloads of a namespace, and of all namespaces, may roll at a time.
func (w *wave) limits(namespace string) (mine, all int) {
	if w.share.percent { // to count is to go through all workloads
		return w.share.of(w.count(namespace)), w.share.of(w.count(""))
	}
	return w.share.n, w.share.n
}

// limit returns the smaller of the two.
func (w *wave) limit(namespace string) int {
	mine, all := w.limits(namespace)
	return min(mine, all)
}

// freeLocked returns how many more workloads of a namespace may roll. The first always may: endless rollouts of other
// namespaces hold up nobody.
func (w *wave) freeLocked(rolls, mine, all int) int {
	if rolls == 0 {
		return max(1, min(mine, all-w.total))
	}
	return min(mine-rolls, all-w.total)
}

// leaveLine takes a workload out of the line.
func (w *wave) leaveLine(of id) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveLineLocked(of)
}

func (w *wave) leaveLineLocked(of id) {
	line := w.waiting[of.Namespace]
	if at := slices.Index(line, of); at >= 0 {
		line = slices.Delete(line, at, at+1)
	}
	if w.waiting[of.Namespace] = line; len(line) == 0 {
		delete(w.waiting, of.Namespace)
	}
}

// turns is how many waiting workloads are looked at when another has ended.
const turns = 10

// next returns the workloads of a kind whose turn may have come: the first of the namespace's line, then of all lines.
func (w *wave) next(kind, namespace string) (keys []kube.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add := func(line []id) {
		for _, of := range line[:min(len(line), turns)] {
			if of.kind == kind && len(keys) < turns {
				keys = append(keys, of.Key)
			}
		}
	}
	add(w.waiting[namespace])
	for other, line := range w.waiting {
		if other != namespace {
			add(line)
		}
	}
	return keys
}

// Forget and Leave make a wave a controller.Memory, of each kind.
type members struct {
	*wave
	kind string
}

// Forget drops a workload.
func (m members) Forget(k kube.Key) {
	of := id{m.kind, k}
	m.note(of, false)
	m.leaveLine(of)
}

// Leave drops those of a namespace.
func (m members) Leave(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total -= len(m.rolling[namespace])
	delete(m.rolling, namespace)
	delete(m.waiting, namespace)
}
