package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Labels and annotations that `kubectl rollout history` and `kubectl rollout undo` read.
const (
	hashLabel          = "pod-template-hash"
	revisionAnnotation = "deployment.kubernetes.io/revision"
	lastApplied        = "kubectl.kubernetes.io/last-applied-configuration"
)

// deployments is the Deployment controller: it moves pods from one template to the next by resizing replica sets.
type deployments struct {
	controllerOf[*workload]
	sets *cache.Store[*workload]
}

func newDeployments(s *shared) runner {
	d := &deployments{newController[*workload](s, deploymentResource, "deployment-controller"),
		mirrorOf[*workload](s, replicaSetResource)}
	indexOrphans(d.sets)
	return d.forEach("deployment", d.sync, controller.Owns(d.sets, deploymentResource.Kind),
		adopters(d.sets, d.mirror))
}

// sync takes at most one step of a rollout, decided by the mirrors alone, and writes the status. A write carries the
// resourceVersion of the decision, so that a decision by an outdated mirror fails with a conflict and is retried.
func (c *deployments) sync(ctx context.Context, d *workload) (time.Duration, error) {
	sets, err := claim(ctx, &c.controllerOf, d, c.sets, replicaSetResource, lives)
	if err != nil {
		return 0, err
	}
	hash, err := templateHash(d.Spec.Template)
	if err != nil {
		return 0, fmt.Errorf("hash pod template of deployment %s: %w", d.Key(), err)
	}
	newest, old, err := split(d, sets, hash)
	if err != nil {
		return 0, err
	}
	var was deploymentStatus
	if err := readStatus(deploymentResource, d, d.Status, &was); err != nil {
		return 0, err
	}
	again := time.Duration(0)
	if !d.Deleting() {
		if err := c.advance(ctx, d, hash, newest, old); err != nil {
			return 0, err
		}
		again = deadline(d, was)
	}
	return again, c.writeStatus(ctx, d, false, d.Status, statusOf(d, was, newest, old))
}

// advance makes the next step of a rollout.
func (c *deployments) advance(ctx context.Context, d *workload, hash string, newest *replicaSet,
	old []*replicaSet) error {
	if newest == nil {
		if ok, err := c.alive(ctx, d); err != nil || !ok || d.Spec.Paused {
			return err
		}
		return c.createSet(ctx, d, hash, nextRevision(old))
	}
	if err := c.adjustNewest(ctx, d, newest, nextRevision(old)); err != nil {
		return err
	}
	s, err := nextStep(d, newest, old)
	if err != nil {
		return err
	}
	if s == nil {
		return c.prune(ctx, d, old)
	}
	err = c.change(ctx, replicaSetResource, s.set, true, "", object{"spec": object{"replicas": s.to}})
	if err != nil {
		return err
	}
	direction := "up"
	if s.to < s.set.replicas() {
		direction = "down"
	}
	c.record(d, events.Normal, "ScalingReplicaSet", fmt.Sprintf(
		"Scaled %s replica set %s from %d to %d", direction, s.set.Name, s.set.replicas(), s.to))
	return nil
}

// split returns the replica set of the current template among the sets of d, and the old sets, oldest first.
func split(d *workload, sets []*workload, hash string) (newest *replicaSet, old []*replicaSet, err error) {
	for _, w := range sets {
		rs := &replicaSet{workload: w}
		if err := readStatus(replicaSetResource, w, w.Status, &rs.Status); err != nil {
			return nil, nil, err
		}
		current, err := rs.madeFrom(hash)
		if err != nil {
			return nil, nil, err
		}
		if current && newest == nil && !rs.Deleting() {
			newest = rs
		} else {
			old = append(old, rs)
		}
	}
	slices.SortStableFunc(old, func(a, b *replicaSet) int { return a.CreationTimestamp.Compare(b.CreationTimestamp) })
	return newest, old, nil
}

// madeFrom says whether a replica set was made from the template with the hash. The label tells, unless the controller
// of another cluster, with other hashes, has made the set.
func (rs *replicaSet) madeFrom(hash string) (bool, error) {
	if label, _ := rs.Labels.Get(hashLabel); label == hash {
		return true, nil
	}
	own, err := templateHash(rs.Spec.Template)
	if err != nil {
		return false, fmt.Errorf("hash pod template of replica set %s: %w", rs.Key(), err)
	}
	return own == hash, nil
}

// nameAlphabet has the characters of generated names.
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// templateHash returns a hash of a pod template in the alphabet of generated names. Equal templates have equal hashes,
// also in a ReplicaSet or a ControllerRevision, whose templates have more fields.
func templateHash(template kube.Raw) (string, error) {
	var v object
	if err := json.Unmarshal(template, &v); err != nil {
		return "", err
	}
	delete(v, "$patch")
	if meta, _ := v["metadata"].(object); meta != nil {
		if meta["creationTimestamp"] == nil {
			delete(meta, "creationTimestamp")
		}
		if labels, _ := meta["labels"].(object); labels != nil {
			delete(labels, hashLabel)
		}
	}
	canonical, err := json.Marshal(v) // sorts the keys of objects
	if err != nil {
		return "", err
	}
	h := fnv.New32a()
	h.Write(canonical)
	digits := []byte(strconv.FormatUint(uint64(h.Sum32()), 10))
	for i, b := range digits {
		digits[i] = nameAlphabet[b%byte(len(nameAlphabet))]
	}
	return string(digits), nil
}

func nextRevision(old []*replicaSet) int64 {
	last := int64(0)
	for _, rs := range old {
		last = max(last, revision(rs))
	}
	return last + 1
}

// revision returns the number in the revision annotation, 0 without one.
func revision(rs *replicaSet) int64 {
	text, _ := rs.Annotations.Get(revisionAnnotation)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// createSet creates an empty replica set for the current template. The next steps scale it up.
func (c *deployments) createSet(ctx context.Context, d *workload, hash string, revision int64) error {
	var template, selector object
	err := errors.Join(json.Unmarshal(d.Spec.Template, &template), json.Unmarshal(d.Spec.Selector.text, &selector))
	if err != nil {
		return fmt.Errorf("read deployment %s: %w", d.Key(), err)
	}
	labels := member(member(template, "metadata"), "labels")
	labels[hashLabel], member(selector, "matchLabels")[hashLabel] = hash, hash
	annotations := d.Annotations.Map()
	delete(annotations, lastApplied)
	annotations[revisionAnnotation] = strconv.FormatInt(revision, 10)
	return c.create(ctx, replicaSetResource, d.Namespace, object{"metadata": object{"name": d.Name + "-" + hash,
		"labels": labels, "annotations": annotations, "ownerReferences": []any{controllerRef(deploymentResource,
			&d.Meta)}}, "spec": object{"replicas": 0, "minReadySeconds": d.Spec.MinReadySeconds, "selector": selector,
		"template": template}})
}

// adjustNewest updates the fields that the newest replica set takes from the Deployment, and the revision number:
// after `kubectl rollout undo` an old replica set becomes the newest again and gets a new number.
func (c *deployments) adjustNewest(ctx context.Context, d *workload, newest *replicaSet, next int64) error {
	number := max(revision(newest), next)
	text := strconv.FormatInt(number, 10)
	if revision(newest) != number || newest.Spec.MinReadySeconds != d.Spec.MinReadySeconds {
		return c.change(ctx, replicaSetResource, newest, true, "", object{
			"metadata": object{"annotations": object{revisionAnnotation: text}},
			"spec":     object{"minReadySeconds": d.Spec.MinReadySeconds},
		})
	}
	if have, _ := d.Annotations.Get(revisionAnnotation); have == text {
		return nil
	}
	// Through the status subresource, as the real controller does, so that the generation does not change.
	return c.change(ctx, deploymentResource, d, false, "status", object{
		"metadata": object{"annotations": object{revisionAnnotation: text}}})
}

// prune deletes empty replica sets beyond the history limit, the oldest first.
func (c *deployments) prune(ctx context.Context, d *workload, old []*replicaSet) error {
	empty := slices.DeleteFunc(slices.Clone(old), func(rs *replicaSet) bool {
		return rs.Deleting() || rs.replicas() > 0 || rs.Status.Replicas > 0
	})
	var errs []error
	for _, rs := range empty[:max(0, len(empty)-valueOr(d.Spec.RevisionHistoryLimit, defaultHistoryLimit))] {
		errs = append(errs, c.remove(ctx, replicaSetResource, rs))
	}
	return errors.Join(errs...)
}
