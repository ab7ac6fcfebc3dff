package cli

import (
	"fmt"
	"slices"
	"strings"

	"skiff/examples"
)

const (
	redisImage     = "redis:7-alpine" // skiff's default
	redisNewImage  = "redis:8-alpine"
	redisFinalizer = "skiff.dev/pods"
)

// redisAct shows a Redis. It leaves one behind, for restartAct.
func redisAct() act {
	return act{"A Redis: pods that are skiff's own, each with a name to keep", []step{
		{
			title: "Create a Redis",
			you:   "kubectl apply -f examples/redis.yaml     # num 3, port 6379",
			do:    apply(examples.Text("redis.yaml")),
			missing: func(_, now world) string {
				switch {
				case now.redisService == nil:
					return "there is no Service"
				case now.redis == nil || !slices.Contains(now.redis.Finalizers, redisFinalizer):
					return "the Redis has no finalizer"
				}
				return now.redisUnless(redisImage, 3)
			},
			tells: []string{"created Service default/cache", "created pod cache-0", "created pod cache-1", "created pod cache-2"},
			event: "Ready",
			proof: "it became the pods cache-0 to cache-2 behind a headless Service, and all are ready",
		},
		{
			title: "Scale it down",
			you:   "kubectl scale redis/cache --replicas=2",
			do:    merge(redises, demoRedis, "scale", object{"spec": object{"replicas": 2}}),
			missing: func(before, now world) string {
				if missing := now.wentBy(before, demoRedis, "cache-2 gone"); missing != "" {
					return missing
				}
				return now.redisUnless(redisImage, 2)
			},
			tells: []string{"deleted pod cache-2"},
			event: "DeletePod",
			proof: "the highest number went, the others were not touched",
		},
		{
			title: "Kill a pod",
			you:   "kubectl delete pod cache-0",
			do:    remove(pods, "cache-0"),
			missing: func(before, now world) string {
				if missing := now.replacedUnless(before, "cache-0"); missing != "" {
					return missing
				}
				return now.redisUnless(redisImage, 2)
			},
			tells: []string{"created pod cache-0"},
			proof: "another pod has its name, and answers",
		},
		{
			title: "Roll it to a new image",
			you:   `kubectl patch redis/cache --type=merge -p '{"spec":{"image":"redis:8-alpine"}}'`,
			do:    merge(redises, demoRedis, "", object{"spec": object{"image": redisNewImage}}),
			missing: func(before, now world) string {
				if missing := now.wentBy(before, demoRedis, "cache-1 gone", "cache-1 ready", "cache-0 gone", "cache-0 ready"); missing != "" {
					return missing
				}
				return now.redisUnless(redisNewImage, 2)
			},
			tells: []string{"deleted pod cache-1", "created pod cache-1", "deleted pod cache-0", "created pod cache-0"},
			proof: "the highest number was replaced first, and only when it was ready the next: one pod served all the time",
		},
	}}
}

// deleteRedis is the last step of the tour: what restartAct needs is not needed any more.
func deleteRedis() step {
	return step{
		title: "Delete the Redis",
		you:   "kubectl delete redis/cache",
		do:    remove(redises, demoRedis),
		missing: func(before, now world) string {
			if missing := now.wentBy(before, demoRedis, "cache-1 gone", "cache-0 gone"); missing != "" {
				return missing
			}
			if now.redis != nil || now.redisService != nil {
				return "something is left of it"
			}
			return ""
		},
		tells: []string{"deleted pod cache-1", "deleted pod cache-0"},
		event: "PodsDeleted",
		proof: "the pods went one by one, the highest number first; until then the finalizer " + redisFinalizer + " kept the Redis",
	}
}

// redisUnless says what is missing for a Redis that is ready with so many pods of an image, and nothing else; "" if nothing is.
func (w world) redisUnless(image string, num int) string {
	ready, all := w.podsReady(demoRedis, image)
	switch {
	case w.redis == nil:
		return "there is no Redis"
	case ready != num || all != num:
		return fmt.Sprintf("%d of %d pods are ready and run %s, want %d", ready, all, image, num)
	}
	for i := range num {
		if name := fmt.Sprintf("%s-%d", demoRedis, i); w.pod(name) == nil {
			return "there is no pod " + name
		}
	}
	if s := w.redis.Status; s.Replicas != num || s.ReadyReplicas != num || s.UpdatedReplicas != num || !w.redis.ready() {
		return fmt.Sprintf("the status of the Redis is behind: ready %d, updated %d of %d", s.ReadyReplicas, s.UpdatedReplicas, num)
	}
	return ""
}

// wentBy says whether exactly this has happened to the pods of a name since before, in this order; "" if so.
func (w world) wentBy(before world, name string, want ...string) string {
	if have := w.since(before, name); !slices.Equal(have, want) {
		return fmt.Sprintf("what happened to the pods: %s; want %s", strings.Join(have, ", "), strings.Join(want, ", "))
	}
	return ""
}

// replacedUnless says what is missing for a pod that is another one than before, at another address; "" if nothing is.
func (w world) replacedUnless(before world, name string) string {
	old, now := before.pod(name), w.pod(name)
	switch {
	case old == nil || now == nil || old.UID == now.UID:
		return "pod " + name + " has not been replaced"
	case !now.ready() || old.Status.PodIP == now.Status.PodIP:
		return "the new pod " + name + " is not ready at an address of its own"
	}
	return ""
}
