package page

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file shows the pods of an object, read when the object's page is opened: skiff watches few pods.

const (
	// podsAge is for how long what was read is shown, to all tabs: a page is made anew each second while runs go on.
	podsAge = 10 * time.Second
	// podsTimeout is how long a page waits for them.
	podsTimeout = 2 * time.Second
	// maxPods are shown of an object, those that are not ready first.
	maxPods = 50
	// maxPodReads are kept.
	maxPodReads = 8
)

// Pods are those of an object, as they were read.
type Pods struct {
	Read    time.Time `json:"read"`
	All     int       `json:"all"`
	Ready   int       `json:"ready"`
	More    bool      `json:"more,omitempty"` // there are others, which were not read
	List    []Pod     `json:"list"`
	Problem string    `json:"problem,omitempty"` // why they were not read
}

// Pod is a pod of an object.
type Pod struct {
	Name    string    `json:"name"`
	Of      string    `json:"partOf,omitempty"`
	State   string    `json:"state"` // ready, not ready, deleting
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"` // for those who may see it
	Created time.Time `json:"created,omitzero"`
}

// podRead is what was read of the pods of an object.
type podRead struct {
	at   time.Time
	pods *Pods // nil: skiff has no right to read them
}

// podReads are what was read of pods lately.
type podReads struct {
	mu   sync.Mutex // guards kept, and is held while pods are read: one list at a time
	kept map[string]podRead
}

// pods returns the pods of an object; nil: none are known of it.
func (p *Page) pods(ctx context.Context, o Owner) *Pods {
	i := slices.IndexFunc(p.o.Controllers(), func(c *controller.Controller) bool { return c.Name() == o.Controller })
	if i < 0 {
		return nil
	}
	p.podReads.mu.Lock()
	defer p.podReads.mu.Unlock()
	at := o.Controller + " " + o.path()
	if kept, ok := p.podReads.kept[at]; ok && time.Since(kept.at) < podsAge {
		return kept.pods
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), podsTimeout) // the answer is for other tabs, too
	defer stop()
	read, known, err := p.o.Controllers()[i].Pods(ctx, kube.Key{Namespace: o.Namespace, Name: o.Name})
	if !known {
		return nil
	}
	if p.podReads.kept == nil || len(p.podReads.kept) >= maxPodReads {
		p.podReads.kept = map[string]podRead{}
	}
	kept := podRead{at: time.Now()}
	if !read.Withheld {
		kept.pods = p.podsOf(read, err)
	}
	p.podReads.kept[at] = kept
	return kept.pods
}

// podsOf is the part of pods that a reader may see. Messages of others about pods may repeat the object.
func (p *Page) podsOf(read controller.Pods, err error) *Pods {
	out := &Pods{Read: time.Now(), All: len(read.List), More: read.More, List: []Pod{}}
	if err != nil {
		out.Problem = "no answer"
		if s := kube.AsStatus(err); s != nil {
			out.Problem = kube.Printable(s.Reason, maxText)
		}
	}
	for _, one := range read.List {
		pod := Pod{Name: kube.Printable(one.Name, maxText), Of: kube.Printable(one.Of, maxText), State: "not ready",
			Reason: kube.Printable(one.Reason, maxText), Created: one.Created}
		switch {
		case one.Deleting:
			pod.State = "deleting"
		case one.Ready:
			pod.State = "ready"
			out.Ready++
		}
		if p.open() {
			pod.Message = kube.Printable(one.Message, maxMessage)
		}
		out.List = append(out.List, pod)
	}
	slices.SortFunc(out.List, func(a, b Pod) int {
		return cmp.Or(compareBool(a.State == "ready", b.State == "ready"), cmp.Compare(a.Name, b.Name))
	})
	out.List = out.List[:min(len(out.List), maxPods)]
	return out
}

func showPods(w *writer, pods *Pods) {
	if pods == nil {
		return
	}
	w.put(`<h2>Pods</h2>`)
	if pods.Problem != "" {
		w.put(`<p class="warn">Not read %s: %s.</p>`, moment(pods.Read), pods.Problem)
		return
	}
	if pods.All == 0 {
		w.put(`<p>None. Read %s.</p>`, moment(pods.Read))
		return
	}
	all := health.Count(pods.All, "pod", "pods")
	if pods.More {
		all = "the first " + all
	}
	w.table(fmt.Sprintf("%d of %s ready, those that are not first.", pods.Ready, all), "State", "Pod", "Part of",
		"Reason", "#Age")
	for _, one := range pods.List {
		reason := text(one.Reason)
		if one.Message != "" {
			reason = `<b>` + reason + `</b><br><span class="says">` + text(one.Message) + `</span>`
		}
		w.keyed(one.Name, childWord(one.State), text(one.Name), text(one.Of), reason, "#"+age(one.Created))
	}
	w.end()
	if hidden := pods.All - len(pods.List); hidden > 0 {
		w.put(`<p>and %d more</p>`, hidden)
	}
	w.put(`<p class="dim">Read %s.</p>`, moment(pods.Read))
}
