// Package keyed holds the memory of one controller: a value for each object, by key. Entries end with the object, or
// with its namespace when a selector drops the namespace; package controller sees to both (Controller.Remembers).
//
// A Map runs on the goroutines of its callers, under one mutex. No entry outlives a restart, so a value must be one
// that a controller can lose without harm.
package keyed

import (
	"maps"
	"sync"

	"skiff/internal/runtime/kube"
)

// Map holds a T for each key. The zero value is an empty Map. All methods may be called from any goroutine.
type Map[T any] struct {
	mu sync.Mutex // guards of
	of map[kube.Key]T
}

// Get returns the value of k, or the zero value.
func (m *Map[T]) Get(k kube.Key) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[k]
}

// Set replaces the value of k.
func (m *Map[T]) Set(k kube.Key, value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setLocked(k, value)
}

// Change lets f change the value of k, the zero value if k has none. f must not call the Map.
func (m *Map[T]) Change(k kube.Key, f func(value *T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value := m.of[k]
	f(&value)
	m.setLocked(k, value)
}

func (m *Map[T]) setLocked(k kube.Key, value T) {
	if m.of == nil {
		m.of = map[kube.Key]T{}
	}
	m.of[k] = value
}

// View lets f read, replace and delete entries, without any change in between; f adds none and does not call the Map.
func (m *Map[T]) View(f func(of map[kube.Key]T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.of)
}

// Forget drops the value of k.
func (m *Map[T]) Forget(k kube.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, k)
}

// Leave drops the values of all keys in a namespace.
func (m *Map[T]) Leave(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.of, func(k kube.Key, _ T) bool { return k.Namespace == namespace })
}
