package spec

import "fmt"

// Difference is a field that skiff treats in another way than metacontroller.
type Difference struct {
	Field, What string
}

// Differences returns the fields of c that skiff treats in another way than metacontroller.
func Differences(c *Controller) (out []Difference) {
	add := func(field, what string) { out = append(out, Difference{field, what}) }
	if c.Resync == 0 {
		add("spec.resyncPeriodSeconds", "is missing: metacontroller then reconciles all parents every 30 minutes, "+
			"skiff does not (`skiff hooks run --resync-period 30m` does)")
	}
	rules, list := "spec.childResources", "children"
	if !c.IsComposite() {
		rules, list = "spec.attachments", "attachments"
	}
	if len(c.Children) > 0 {
		add("spec.hooks.sync", "an answer that is no object, or has no "+list+", is an error; metacontroller deletes "+
			"all children")
		add(rules, "a child declared twice is refused, and so are two items of a list with one key; metacontroller "+
			"takes the last child, and sends both items. null means that a field is absent")
		add(rules, "deletes of 10 children or more, and of more than half of all, wait for the annotation "+
			AllowDeletes)
	}
	for _, child := range c.Children {
		at := fmt.Sprintf("%s[%s].updateStrategy.method", rules, child.GroupResource())
		if child.Method.Rolling() {
			add(at, string(child.Method)+": skiff rolls children of namespaced parents; metacontroller waits "+
				"for ever with \"missing child\"")
		}
		switch child.Method {
		case InPlace, RollingInPlace:
			add(at, string(child.Method)+": server-side apply owns the fields, and not the annotation "+
				"last-applied-configuration")
		case Recreate, RollingRecreate:
			add(at, string(child.Method)+": a dry run decides whether a child differs; before metacontroller runs "+
				"again, set InPlace: it takes each child of skiff for changed")
		}
	}
	hookDifferences(c, add)
	return out
}

// hookDifferences adds the differences of hooks.
func hookDifferences(c *Controller, add func(field, what string)) {
	if c.Finalize != nil {
		add("spec.hooks.finalize", "only this hook's \"finalized\": true counts; metacontroller obeys that of "+
			"sync, too")
	}
	if c.Customize != nil {
		add("spec.hooks.customize", "an answer is kept until the generation of the parent or the hook changes; "+
			"metacontroller asks again after 20 minutes")
	}
	for _, h := range c.Hooks() {
		switch at := "spec.hooks." + h.Name; {
		case h.Exec != nil:
			add(at+".exec", "metacontroller has no programs; skiff runs one of a cluster's controller only with "+
				"--allow-exec")
		case !h.Webhook.Access.IsZero():
			add(at+".webhook", "credentials are read again after a 401, a 403 or an error of TLS; metacontroller "+
				"reads them when it starts")
		}
	}
}
