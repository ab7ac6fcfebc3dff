package controller

import (
	"errors"
	"fmt"
	"strings"

	"skiff/internal/runtime/kube"
)

// lack is what keeps a controller from working on a part. The same lack of several namespaces is one sentence.
type lack struct {
	forbidden string // resources that may not be listed and watched
	user      string // who may not, as the server calls skiff; "": it does not say
	rest      string // all else, with the next step
}

// lackOf returns what keeps the controller from working on a part; the zero value if nothing does.
func (c *Controller) lackOf(one *part) lack {
	var forbidden, absent, other []string
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
				if m.Resource().Group == ownGroup {
					text += "; run the skiff that these definitions belong to, or `skiff crds install` for this one"
				}
				other = append(other, text)
			case kube.IsNotFound(s.Err) && m.Resource().Group == ownGroup:
				absent = append(absent, name)
			case kube.IsNotFound(s.Err):
				other = append(other, name+": the server does not have this resource; install its CRD")
			case s.Err != nil:
				other = append(other, name+": "+reason(s.Err))
			default:
				other = append(other, name+": not listed yet")
			}
		}
	}
	switch len(absent) {
	case 0:
	case 1:
		other = append([]string{absent[0] + " is not installed; run `skiff crds install`"}, other...)
	default:
		other = append([]string{strings.Join(absent, ", ") + " are not installed; run `skiff crds install`"},
			other...)
	}
	return lack{strings.Join(forbidden, ", "), user, strings.Join(other, "; ")}
}

// problemOf says what keeps the controller from working on a part, and the next step; "" if nothing does.
func (c *Controller) problemOf(one *part) string { return c.describeLack(c.lackOf(one), one.namespace) }

// describeLack says what namespaces lack, and the next step. It is a command that an administrator
// can paste: it asks with skiff's name, and so grants what is missing to skiff.
func (c *Controller) describeLack(l lack, namespaces ...string) string {
	if l == (lack{}) {
		return ""
	}
	text := l.rest
	if l.forbidden != "" {
		text = "may not list and watch " + l.forbidden + "; " + c.grant(l.user, namespaces)
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

// maxGranted bounds the namespaces of one command.
const maxGranted = 20

// grant is how an administrator gives a user what the controller needs in namespaces.
func (c *Controller) grant(user string, namespaces []string) string {
	if c.kind == noKind { // of flags: its rights are not those of a custom resource
		return "grant it as examples/sidecar.yaml does"
	}
	command := "skiff check --controllers " + c.name
	if user != "" {
		command += " --as " + user
	}
	if namespaces[0] != "" {
		command += " --watch-namespaces " + strings.Join(namespaces[:min(len(namespaces), maxGranted)], ",")
	}
	text := "an administrator grants it with `" + command + " -o yaml | kubectl apply -f -`"
	if user == "" {
		text += " and, for --as, the user that skiff runs as"
	}
	return text
}

// notWorking says which namespaces are not worked on, those with the same problem in one line.
func (c *Controller) notWorking() (lines []string) {
	type group struct {
		lack
		doing doing
	}
	var order []group
	namespaces := map[group][]string{}
	for _, one := range c.parts.list() {
		l := c.lackOf(one)
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
		line := "not working: " + c.describeLack(g.lack, namespaces[g]...)
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
