package plan

// Summary counts the lines of a plan.
type Summary struct {
	Create  int `json:"create"`
	Change  int `json:"change"`
	Delete  int `json:"delete"`
	Blocked int `json:"blocked"`
	Failed  int `json:"failed"`
	Pods    int `json:"pods"`
}

// Summary counts the lines by operation.
func (out *Plan) Summary() (s Summary) {
	for _, o := range out.Owners {
		if o.Failed {
			s.Failed++
		}
		for _, l := range o.Lines {
			s.Pods += l.Pods
			switch l.Op {
			case Create:
				s.Create++
			case Change:
				s.Change++
			case Delete:
				s.Delete++
			case Replace:
				s.Create, s.Delete = s.Create+1, s.Delete+1
			case Blocked:
				s.Blocked++
			}
		}
	}
	return s
}

// Exit returns the exit code: 1 an owner could not be planned, 4 a line is blocked, 3 there are writes, 0 there is
// nothing to write.
func (s Summary) Exit() int {
	switch {
	case s.Failed > 0:
		return 1
	case s.Blocked > 0:
		return 4
	case s.Create+s.Change+s.Delete > 0:
		return 3
	}
	return 0
}
