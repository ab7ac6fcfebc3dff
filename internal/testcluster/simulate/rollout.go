package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
)

// step is one resize of a replica set.
type step struct {
	set *replicaSet
	to  int
}

// nextStep returns the next step of a rollout from the old replica sets to the newest, nil if no step is possible now.
// One step at a time is enough: the event of the changed replica set triggers the next, and no pod is counted twice
// meanwhile.
func nextStep(d *workload, newest *replicaSet, old []*replicaSet) (*step, error) {
	if d.Spec.Paused {
		return nil, nil
	}
	if d.Spec.Strategy.Type == "Recreate" {
		return recreateStep(d, newest, old), nil
	}
	surge, unavailable, err := rollingBounds(d)
	if err != nil {
		return nil, err
	}
	if s := growNewest(d, newest, old, surge); s != nil {
		return s, nil
	}
	return shrinkOld(d, newest, old, unavailable), nil
}

// recreateStep stops all old pods before new pods start.
func recreateStep(d *workload, newest *replicaSet, old []*replicaSet) *step {
	for _, rs := range old {
		if rs.replicas() > 0 {
			return &step{rs, 0}
		}
	}
	if slices.ContainsFunc(old, func(rs *replicaSet) bool { return rs.Status.Replicas > 0 }) {
		return nil
	}
	return resize(newest, d.replicas())
}

func resize(rs *replicaSet, to int) *step {
	if rs.replicas() == to {
		return nil
	}
	return &step{rs, to}
}

// growNewest scales the newest replica set up as far as the surge allows, or down to the wanted number.
func growNewest(d *workload, newest *replicaSet, old []*replicaSet, surge int) *step {
	want, have := d.replicas(), newest.replicas()
	if have > want {
		return &step{newest, want}
	}
	room := want + surge - have - sumReplicas(old)
	return resize(newest, have+max(0, min(room, want-have)))
}

// shrinkOld scales down an old replica set while enough other pods are available. Unavailable pods go first: they
// serve nothing, and a broken old revision must not block its replacement.
func shrinkOld(d *workload, newest *replicaSet, old []*replicaSet, unavailable int) *step {
	least := d.replicas() - unavailable
	newNotAvailable := newest.replicas() - newest.available()
	spare := sumReplicas(old) + newest.replicas() - least - newNotAvailable
	if spare <= 0 {
		return nil
	}
	for _, rs := range old {
		if sick := rs.replicas() - rs.available(); sick > 0 {
			return &step{rs, rs.replicas() - min(sick, spare)}
		}
	}
	available := newest.available()
	for _, rs := range old {
		available += rs.available()
	}
	for _, rs := range old {
		if n := min(rs.replicas(), available-least); n > 0 {
			return &step{rs, rs.replicas() - n}
		}
	}
	return nil
}

func sumReplicas(sets []*replicaSet) int {
	n := 0
	for _, rs := range sets {
		n += rs.replicas()
	}
	return n
}

// rollingBounds returns maxSurge and maxUnavailable in pods. Percentages are rounded in the safe direction. If both
// are zero no step would be possible, so that one pod may be unavailable, as in the real controller.
func rollingBounds(d *workload) (surge, unavailable int, err error) {
	r := d.Spec.Strategy.RollingUpdate
	surge, err = intOrPercent(r.MaxSurge, d.replicas(), true)
	if err != nil {
		return 0, 0, fmt.Errorf("deployment %s: maxSurge: %w", d.Key(), err)
	}
	unavailable, err = intOrPercent(r.MaxUnavailable, d.replicas(), false)
	if err != nil {
		return 0, 0, fmt.Errorf("deployment %s: maxUnavailable: %w", d.Key(), err)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, d.replicas()), nil
}

// intOrPercent reads 3, or "25%" of a total. A missing value means 25%, the default of the API.
func intOrPercent(raw kube.Raw, whole int, up bool) (int, error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		text = "25%"
	}
	digits, percent := strings.CutSuffix(text, "%")
	number, err := strconv.ParseInt(digits, 10, 32)
	n := int(number)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("want a number or a percentage, have %s", text)
	}
	if !percent {
		return n, nil
	}
	n *= whole
	if up {
		n += 99
	}
	return n / 100, nil
}
