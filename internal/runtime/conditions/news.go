package conditions

// News is a change of conditions that people want an Event of.
type News struct {
	Warning      bool
	Reason, Note string
}

// NewsOf returns what the conditions after say that those before did not: that something is wrong, that all is well,
// that changes are not made any more, or made again. Told where a status was written, it is told once.
func NewsOf(before, after []Condition) []News {
	turned := func(conditionType string, to Status) (now Condition, was Status, news bool) {
		old, _ := Get(before, conditionType)
		now, _ = Get(after, conditionType)
		return now, old.Status, now.Status == to && (old.Status != to || old.Reason != now.Reason)
	}
	var news []News
	if c, _, ok := turned(Degraded, True); ok {
		news = append(news, News{Warning: true, Reason: c.Reason, Note: c.Message})
	}
	if c, _, ok := turned(Ready, True); ok {
		news = append(news, News{Reason: Ready, Note: c.Message})
	}
	if _, _, ok := turned(Paused, True); ok {
		news = append(news, News{Reason: Paused,
			Note: "nothing is changed until the annotation " + PausedAnnotation + " is removed"})
	}
	if c, _, ok := turned(Paused, Unknown); ok {
		news = append(news, News{Warning: true, Reason: c.Reason, Note: c.Message})
	}
	if _, was, ok := turned(Paused, False); ok && was == True {
		news = append(news, News{Reason: "Resumed", Note: "changes are made again"})
	}
	return news
}
