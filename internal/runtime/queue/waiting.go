package queue

// keepLines is how many empty lines a lane keeps at least, for namespaces that are busy now and then.
const keepLines = 64

// waiting holds the due keys of a lane: a line for each namespace, and a ring of the lines that are not empty. Each
// line in the ring gives one key in turn.
type waiting struct {
	lines map[string]*line // by namespace; empty ones are kept for a while, as most soon have a key again
	front *line            // gives the next key; nil if all are empty
	last  *line            // took the last key, and most often takes the next key, too
	used  int              // lines that are not empty
	len   int              // keys
}

// line holds the due keys of one namespace, first come first served. Links make the removal of a key from the middle
// cheap, when the key is raised to the other lane.
type line struct {
	namespace  string
	lane       lane
	head, tail *entry
	prev, next *line // neighbours in the ring; nil for an empty line
}

func newWaiting() waiting { return waiting{lines: map[string]*line{}} }

// push puts e at the end of its namespace's line.
func (w *waiting) push(e *entry) {
	l := w.lineOf(e)
	if l.head == nil {
		w.join(l)
	}
	e.in, e.prev, e.next = l, l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	w.len++
}

// pop takes the next key of a namespace that is not full, and moves the front to the next line; nil: none.
func (w *waiting) pop(full func(namespace string) bool) *entry {
	l := w.front
	for range w.used {
		if !full(l.namespace) {
			e := l.head
			w.front = l.next
			w.remove(e)
			return e
		}
		l = l.next
	}
	return nil
}

func (w *waiting) remove(e *entry) {
	l := e.in
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.in, e.prev, e.next = nil, nil, nil
	w.len--
	if l.head == nil {
		w.leave(l)
	}
}

func (w *waiting) lineOf(e *entry) *line {
	if w.last != nil && w.last.namespace == e.key.Namespace {
		return w.last
	}
	l := w.lines[e.key.Namespace]
	if l == nil {
		w.sweep()
		l = &line{namespace: e.key.Namespace, lane: e.lane}
		w.lines[l.namespace] = l
	}
	w.last = l
	return l
}

// join puts a line at the end of the round.
func (w *waiting) join(l *line) {
	w.used++
	if w.front == nil {
		w.front, l.prev, l.next = l, l, l
		return
	}
	l.prev, l.next = w.front.prev, w.front
	l.prev.next, l.next.prev = l, l
}

// leave takes an empty line out of the round.
func (w *waiting) leave(l *line) {
	w.used--
	switch {
	case l.next == l:
		w.front = nil
	case w.front == l:
		w.front = l.next
	}
	l.prev.next, l.next.prev = l.next, l.prev
	l.prev, l.next = nil, nil
}

// sweep drops the empty lines when there are many, so that deleted namespaces cost nothing.
func (w *waiting) sweep() {
	if len(w.lines) < keepLines || len(w.lines) < 2*w.used {
		return
	}
	kept := make(map[string]*line, w.used)
	for name, l := range w.lines {
		if l.head != nil {
			kept[name] = l
		}
	}
	w.lines, w.last = kept, nil
}
