package podsecurity

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/testcluster/apiserver/obj"
)

// pod is a pod to be checked, by the rules of a version.
type pod struct {
	spec          map[string]any
	annotations   map[string]string
	containers    []map[string]any // of all three lists
	version       int              // x of 1.x
	userNamespace bool             // of its own: root in it is nobody on the node
	windows       bool
}

// check is a rule of a standard.
type check struct {
	name       string
	restricted bool
	since      int    // the first version that has the rule
	replaces   string // the name of a rule of baseline that restricted does without, because this one says more
	find       func(p *pod) violation
}

// checks are the rules in the order in which kube-apiserver tells of them.
var checks = []check{
	{name: "appArmorProfile", find: appArmor},
	{name: "capabilities", find: addedCapabilities},
	{name: "hostNamespaces", find: hostNamespaces},
	{name: "hostPathVolumes", find: hostPaths},
	{name: "hostPorts", find: hostPorts},
	{name: "hostProbes", since: 34, find: probeHosts},
	{name: "privileged", find: privilegedContainers},
	{name: "procMount", find: func(p *pod) violation {
		if p.version >= 35 && p.userNamespace {
			return violation{}
		}
		return procMounts(p)
	}},
	{name: "seLinuxOptions", find: seLinux},
	{name: "seccompProfile", find: seccompBaseline},
	{name: "sysctls", find: sysctls},
	{name: "windowsHostProcess", find: hostProcess},

	{name: "allowPrivilegeEscalation", restricted: true, since: 8, find: escalation},
	{name: "restrictedCapabilities", restricted: true, since: 22, replaces: "capabilities", find: droppedCapabilities},
	{name: "restrictedProcMount", restricted: true, since: 35, replaces: "procMount", find: procMounts},
	{name: "restrictedVolumes", restricted: true, replaces: "hostPathVolumes", find: volumeTypes},
	{name: "runAsNonRoot", restricted: true, find: nonRoot},
	{name: "runAsUser", restricted: true, since: 23, find: rootUser},
	{name: "restrictedSeccomp", restricted: true, since: 19, replaces: "seccompProfile", find: seccompRestricted},
}

// context returns a field of the securityContext of a pod's spec or of a container.
func context(of map[string]any, path ...string) any {
	return obj.Get(of, append([]string{"securityContext"}, path...)...)
}

// where returns the names of the containers that are bad.
func (p *pod) where(bad func(c map[string]any) bool) (names []string) {
	for _, c := range p.containers {
		if bad(c) {
			names = append(names, obj.String(c, "name"))
		}
	}
	return names
}

// set is a set of texts, listed in order.
type set map[string]bool

func (s set) list() []string { return slices.Sorted(maps.Keys(s)) }

func plural(word string, n int) string {
	if n != 1 {
		word += "s"
	}
	return word
}

func quoted(items []string) string { return `"` + strings.Join(items, `", "`) + `"` }

// containers names containers.
func containers(names []string) string { return plural("container", len(names)) + " " + quoted(names) }

// setters names who sets something: the pod itself, containers, or both.
func setters(ofPod bool, names []string) []string {
	var out []string
	if ofPod {
		out = append(out, "pod")
	}
	if len(names) > 0 {
		out = append(out, containers(names))
	}
	return out
}

// uses says that n of what is named before use things: one uses, two use.
func uses(n int, what string, things int) string {
	if n == 1 {
		return " uses " + plural(what, things) + " "
	}
	return " use " + plural(what, things) + " "
}

const appArmorKeys = "container.apparmor.security.beta.kubernetes.io/"

func appArmor(p *pod) violation {
	values := set{}
	bad := func(of map[string]any) bool {
		if obj.Map(of, "securityContext", "appArmorProfile") == nil {
			return false
		}
		profile := obj.String(of, "securityContext", "appArmorProfile", "type")
		if profile == "RuntimeDefault" || profile == "Localhost" {
			return false
		}
		values[profile] = true
		return true
	}
	who := setters(bad(p.spec), p.where(bad))
	annotations := set{}
	for key, value := range p.annotations {
		if strings.HasPrefix(key, appArmorKeys) && value != "" && value != "runtime/default" &&
			!strings.HasPrefix(value, "localhost/") {
			annotations[key+"="+strconv.Quote(value)] = true
		}
	}
	list := append(values.list(), annotations.list()...)
	if len(annotations) > 0 {
		who = append(who, plural("annotation", len(annotations)))
	}
	if len(who) == 0 {
		return violation{}
	}
	return violation{plural("forbidden AppArmor profile", len(list)),
		strings.Join(who, " and ") + " must not set AppArmor profile type to " + quoted(list)}
}

// usual are the capabilities that containers have by default.
var usual = []string{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}

// adds returns the containers that add capabilities other than those that are allowed, and these.
func (p *pod) adds(allowed ...string) (names []string, added set) {
	added = set{}
	names = p.where(func(c map[string]any) (bad bool) {
		for _, capability := range obj.Texts(c, "securityContext", "capabilities", "add") {
			if !slices.Contains(allowed, capability) {
				bad, added[capability] = true, true
			}
		}
		return bad
	})
	return names, added
}

func mustNotAdd(names []string, added set) string {
	return containers(names) + " must not include " + quoted(added.list()) + " in securityContext.capabilities.add"
}

func addedCapabilities(p *pod) violation {
	names, added := p.adds(usual...)
	if len(names) == 0 {
		return violation{}
	}
	return violation{"non-default capabilities", mustNotAdd(names, added)}
}

func droppedCapabilities(p *pod) violation {
	if p.version >= 25 && p.windows {
		return violation{}
	}
	var details []string
	kept := p.where(func(c map[string]any) bool {
		return !slices.Contains(obj.Texts(c, "securityContext", "capabilities", "drop"), "ALL")
	})
	if len(kept) > 0 {
		details = append(details, containers(kept)+` must set securityContext.capabilities.drop=["ALL"]`)
	}
	if names, added := p.adds("NET_BIND_SERVICE"); len(names) > 0 {
		details = append(details, mustNotAdd(names, added))
	}
	if len(details) == 0 {
		return violation{}
	}
	return violation{"unrestricted capabilities", strings.Join(details, "; ")}
}

func hostNamespaces(p *pod) violation {
	var list []string
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if p.spec[field] == true {
			list = append(list, field+"=true")
		}
	}
	if len(list) == 0 {
		return violation{}
	}
	return violation{"host namespaces", strings.Join(list, ", ")}
}

func hostPaths(p *pod) violation {
	var names []string
	for _, v := range obj.Maps(p.spec, "volumes") {
		if v["hostPath"] != nil {
			names = append(names, obj.String(v, "name"))
		}
	}
	if len(names) == 0 {
		return violation{}
	}
	return violation{"hostPath volumes", plural("volume", len(names)) + " " + quoted(names)}
}

func hostPorts(p *pod) violation {
	ports := set{}
	names := p.where(func(c map[string]any) (bad bool) {
		for _, port := range obj.Maps(c, "ports") {
			if n, _ := obj.Int(port, "hostPort"); n != 0 {
				bad, ports[strconv.FormatInt(n, 10)] = true, true
			}
		}
		return bad
	})
	if len(names) == 0 {
		return violation{}
	}
	return violation{"hostPort", containers(names) + uses(len(names), "hostPort", len(ports)) +
		strings.Join(ports.list(), ", ")}
}

func probeHosts(p *pod) violation {
	hosts, where := set{}, set{}
	for _, c := range p.containers {
		for _, handler := range [][]string{{"livenessProbe"}, {"readinessProbe"}, {"startupProbe"},
			{"lifecycle", "postStart"}, {"lifecycle", "preStop"}} {
			for _, action := range []string{"httpGet", "tcpSocket"} {
				if host := obj.String(c, append(slices.Clone(handler), action, "host")...); host != "" {
					hosts[host], where[obj.String(c, "name")] = true, true
				}
			}
		}
	}
	if len(hosts) == 0 {
		return violation{}
	}
	return violation{"probe or lifecycle host", containers(where.list()) +
		uses(len(where), "probe or lifecycle host", len(hosts)) + quoted(hosts.list())}
}

func privilegedContainers(p *pod) violation {
	names := p.where(func(c map[string]any) bool { return context(c, "privileged") == true })
	if len(names) == 0 {
		return violation{}
	}
	return violation{"privileged", containers(names) + " must not set securityContext.privileged=true"}
}

func procMounts(p *pod) violation {
	types := set{}
	names := p.where(func(c map[string]any) bool {
		text, ok := context(c, "procMount").(string)
		if !ok || text == "Default" {
			return false
		}
		types[text] = true
		return true
	})
	if len(names) == 0 {
		return violation{}
	}
	return violation{"procMount", containers(names) + " must not set securityContext.procMount to " +
		quoted(types.list())}
}

func seLinux(p *pod) violation {
	allowed := []string{"", "container_t", "container_init_t", "container_kvm_t"}
	if p.version >= 31 {
		allowed = append(allowed, "container_engine_t")
	}
	types, said := set{}, set{}
	bad := func(of map[string]any) (bad bool) {
		options := obj.Map(of, "securityContext", "seLinuxOptions")
		if kind := obj.String(options, "type"); !slices.Contains(allowed, kind) {
			bad, types[kind] = true, true
		}
		for _, field := range []string{"user", "role"} {
			if obj.String(options, field) != "" {
				bad, said[field] = true, true
			}
		}
		return bad
	}
	who := setters(bad(p.spec), p.where(bad))
	if len(who) == 0 {
		return violation{}
	}
	var what []string
	if len(types) > 0 {
		what = append(what, plural("type", len(types))+" "+quoted(types.list()))
	}
	for _, field := range []string{"user", "role"} {
		if said[field] {
			what = append(what, field+" may not be set")
		}
	}
	return violation{"seLinuxOptions", strings.Join(who, " and ") +
		" set forbidden securityContext.seLinuxOptions: " + strings.Join(what, "; ")}
}
