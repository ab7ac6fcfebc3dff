package page

// showObject is the page of one object.
func showObject(w *writer, a ObjectAnswer) {
	o := a.Owner
	name := o.Object()
	w.title = name
	w.put(`<p><a href="/debug/">all objects</a></p><h1>%s</h1><p>%s %s`, text(name), word(o.State), text(o.Reason))
	if !o.Next.IsZero() {
		w.put(`; next run %s`, moment(o.Next))
	}
	w.put(`</p>`)
	if o.Command != "" {
		w.put(`<p>%s</p>`, command(o.Command))
	}
	w.table("Conditions, as the status has them.", "Type", "Status", "Reason")
	for _, c := range o.Conditions {
		w.keyed(c.Type, text(c.Type), text(string(c.Status)), text(c.Reason))
	}
	w.end()
	w.put(`<h2>Children</h2>`)
	showDetails(w, o)
	showTimeline(w, a.Timeline, nil)
}
