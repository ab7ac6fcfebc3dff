package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// Advice is what a user of the program can do, as the end of a message; "" adds nothing.
type Advice struct {
	cache.Advice
	Install map[string]string // a definition of this API group is missing
	Version map[string]string // it is there in another version
	// Grant is how an administrator gives a user, "" where it is not known, what a controller needs in namespaces, or
	// everywhere if the first is ""; nil: no advice.
	Grant func(controller, user string, namespaces []string) string
}

// lack is what keeps a controller from working on a part. The same lack of several namespaces is one sentence.
type lack struct {
	forbidden string // resources that may not be listed and watched
	user      string // who may not, as the server calls skiff; "": it does not say
	rest      string // all else, with the next step
}

// lackOf returns what keeps the controller from working on a part; the zero value if nothing does. say puts other
// errors than missing rights and resources into words.
func (c *Controller) lackOf(one *part, say func(error) string) lack {
	var forbidden, other []string
	absent := map[string][]string{} // by what installs them
	var user string
	version := new(kube.OtherVersionError)
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			ours := s.Namespace == "" || s.Namespace == one.namespace
			switch name := m.Resource().GroupResource(); {
			case !ours, s.Synced && !s.Parked:
			case kube.IsForbidden(s.Err):
				forbidden, user = append(forbidden, name), kube.ForbiddenUser(s.Err)
			case errors.As(s.Err, &version):
				text := fmt.Sprintf("%s is served as %s, and this skiff needs %s", name, strings.Join(version.Served,
					", "), version.Resource.Version)
				other = append(other, text+then(c.o.Advice.Version[m.Resource().Group]))
			case kube.IsNotFound(s.Err) && c.o.Advice.Install[m.Resource().Group] != "":
				install := c.o.Advice.Install[m.Resource().Group]
				absent[install] = append(absent[install], name)
			case kube.IsNotFound(s.Err):
				other = append(other, name+": the server does not have this resource; install its CRD")
			case s.Err != nil:
				other = append(other, name+": "+say(s.Err))
			default:
				other = append(other, name+": not listed yet")
			}
		}
	}
	for _, install := range slices.Sorted(maps.Keys(absent)) {
		names := absent[install]
		are := " is not installed"
		if len(names) > 1 {
			are = " are not installed"
		}
		other = append([]string{strings.Join(names, ", ") + are + then(install)}, other...)
	}
	return lack{strings.Join(forbidden, ", "), user, strings.Join(other, "; ")}
}

// problemOf says what keeps the controller from working on a part, and the next step; "" if nothing does.
func (c *Controller) problemOf(one *part) string {
	return c.describeLack(c.lackOf(one, reason), one.namespace)
}

// describeLack says what namespaces lack, and the next step.
func (c *Controller) describeLack(l lack, namespaces ...string) string {
	if l == (lack{}) {
		return ""
	}
	text := l.rest
	if l.forbidden != "" {
		text = "may not list and watch " + l.forbidden
		if grant := c.o.Advice.Grant; grant != nil {
			text += then(grant(c.name, l.user, namespaces))
		}
		if l.rest != "" {
			text += "; " + l.rest
		}
	}
	switch {
	case namespaces[0] == "":
		return text
	case len(namespaces) == 1:
		return "namespace " + namespaces[0] + ": " + text
	}
	return "namespaces " + few(namespaces) + ": " + text
}

// then adds the next step.
func then(advice string) string {
	if advice == "" {
		return ""
	}
	return "; " + advice
}

// notWorkingPrefix is how the lines of notWorking begin.
const notWorkingPrefix = "not working: "

// notWorking says which namespaces are not worked on, those with the same problem in one line. say puts an error into
// words.
func (c *Controller) notWorking(say func(error) string) (lines []string) {
	type group struct {
		lack
		doing doing
	}
	var order []group
	namespaces := map[group][]string{}
	for _, one := range c.parts.list() {
		l := c.lackOf(one, say)
		if l == (lack{}) {
			continue
		}
		g := group{l, c.parts.stage(one).doing}
		if namespaces[g] == nil {
			order = append(order, g)
		}
		namespaces[g] = append(namespaces[g], one.namespace)
	}
	for _, g := range order {
		line := notWorkingPrefix + c.describeLack(g.lack, namespaces[g]...)
		switch g.doing {
		case reporting:
			line += "; the status of the objects says that their state is not known"
		case muted:
			line += "; the status of the objects cannot be written either and may not be true any more"
		}
		lines = append(lines, line)
	}
	return lines
}
