//go:build !race

package cache

import "skiff/internal/runtime/kube"

// mutationCheck costs nothing outside the race detector; see mutation_race.go.
type mutationCheck struct{}

const mutationsAreChecked = false

func (mutationCheck) enter(kube.Object)  {}
func (mutationCheck) leave(kube.Object)  {}
func (mutationCheck) verify(kube.Object) {}
