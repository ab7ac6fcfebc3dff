package cache

import "skiff/internal/runtime/kube"

// Size returns the memory that an object takes, about; 0 where there is none.
func (s *Store[T]) Size(k kube.Key) int64 {
	obj, ok := s.lookup(k)
	if !ok {
		return 0
	}
	return sizeOf(obj)
}
