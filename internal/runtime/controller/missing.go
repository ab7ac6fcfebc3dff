package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
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

// reasonOfLack are the Reasons of Problems by the labels of metrics.
var reasonOfLack = map[string]string{MissingRight: "Forbidden", MissingResource: "NotFound",
	MissingContent: notSynced}

// lack is one reason for which a controller does not work on a part. Equal lacks of several parts make one Problem.
type lack struct {
	reason string // of MissingReasons
	names  string // of the resources
	user   string // who may not list and watch them, as the server calls skiff; "": it does not say
	health.Problem
}

// same identifies the lack among those of other parts.
func (l *lack) same() string {
	return fmt.Sprintf("%s %s %s %q", l.reason, l.names, l.user, l.Problem.Text(l.Since))
}

// lacksOf returns what keeps the controller from working on a part: missing rights first, then missing definitions.
func (c *Controller) lacksOf(one *part) (out []lack) {
	var forbidden, other []lack
	absent := map[string][]string{} // by what installs them
	version := new(kube.OtherVersionError)
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			if s.Namespace != "" && s.Namespace != one.namespace || s.Synced && !s.Parked {
				continue
			}
			l := lack{reason: MissingContent, names: m.Resource().GroupResource()}
			install := c.o.Advice.Install[m.Resource().Group]
			switch {
			case kube.IsForbidden(s.Err):
				l.reason, l.user = MissingRight, kube.ForbiddenUser(s.Err)
				if len(forbidden) > 0 {
					forbidden[0].names += ", " + l.names
					continue
				}
				forbidden = append(forbidden, l)
				continue
			case errors.As(s.Err, &version):
				l.reason, l.Next = MissingResource, c.o.Advice.Version[m.Resource().Group]
				l.Public = fmt.Sprintf("%s is served as %s, and this skiff needs %s", l.names,
					strings.Join(version.Served, ", "), version.Resource.Version)
			case kube.IsNotFound(s.Err) && install != "":
				absent[install] = append(absent[install], l.names)
				continue
			case kube.IsNotFound(s.Err):
				l.reason, l.Public, l.Next = MissingResource, l.names+": the server does not have this resource",
					"install its CRD"
			case s.Err != nil:
				l.Problem = health.OfError(s.Err)
				l.Public = l.names + ": " + l.Public
			default:
				l.Public = l.names + ": not listed yet"
			}
			other = append(other, l)
		}
	}
	out = forbidden
	for _, install := range slices.Sorted(maps.Keys(absent)) {
		l := lack{reason: MissingResource, names: strings.Join(absent[install], ", ")}
		l.Public, l.Next = l.names+" is not installed", install
		if len(absent[install]) > 1 {
			l.Public = l.names + " are not installed"
		}
		out = append(out, l)
	}
	return append(out, other...)
}

// maxNamespaces bounds the namespaces of one Problem: ten thousand would make an answer of a probe a megabyte.
const maxNamespaces = 100

// problem returns a lack of some namespaces, with the next step.
func (c *Controller) problem(l lack, namespaces ...string) health.Problem {
	p := l.Problem
	p.Controller, p.Reason = c.name, reasonOfLack[l.reason]
	if l.reason == MissingRight {
		p.Public = "may not list and watch " + l.names
		if grant := c.o.Advice.Grant; grant != nil {
			p.Next = grant(c.name, l.user, namespaces)
		}
	}
	switch {
	case namespaces[0] == "":
		return p
	case len(namespaces) == 1:
		p.Public = "namespace " + namespaces[0] + ": " + p.Public
	default:
		p.Public = "namespaces " + health.Few(namespaces) + ": " + p.Public
	}
	p.Namespaces = namespaces[:min(len(namespaces), maxNamespaces)]
	return p
}

// problemsOf returns what keeps the controller from working on a part.
func (c *Controller) problemsOf(one *part) (out []health.Problem) {
	for _, l := range c.lacksOf(one) {
		out = append(out, c.problem(l, one.namespace))
	}
	return out
}

// notWorking returns the lacks of all parts as Problems; parts with an equal lack share a Problem.
func (c *Controller) notWorking() (out []health.Problem) {
	type group struct {
		same  string
		doing doing
	}
	var order []group
	lacks, namespaces := map[group]lack{}, map[group][]string{}
	for _, one := range c.parts.list() {
		for _, l := range c.lacksOf(one) {
			g := group{l.same(), c.parts.stage(one).doing}
			if namespaces[g] == nil {
				order, lacks[g] = append(order, g), l
			}
			namespaces[g] = append(namespaces[g], one.namespace)
		}
	}
	for _, g := range order {
		p := c.problem(lacks[g], namespaces[g]...)
		effect := ""
		switch g.doing {
		case reporting:
			effect = "the status of the objects says that their state is not known"
		case muted:
			effect = "the status of the objects cannot be written either and may not be true any more"
		}
		if p.Next != "" && effect != "" {
			p.Next += "; "
		}
		p.Next += effect
		out = append(out, p)
	}
	return out
}
