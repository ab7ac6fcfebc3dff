package podsecurity

import (
	"slices"
	"strconv"
	"strings"

	"skiff/internal/testcluster/apiserver/obj"
)

// seccomp says who sets a profile that is not allowed, and who has none that is.
func (p *pod) seccomp() (bad violation, missing []string) {
	types := set{}
	profile := func(of map[string]any) (is, valid bool) {
		if obj.Map(of, "securityContext", "seccompProfile") == nil {
			return false, false
		}
		kind := obj.String(of, "securityContext", "seccompProfile", "type")
		if valid = kind == "RuntimeDefault" || kind == "Localhost"; !valid {
			types[kind] = true
		}
		return true, valid
	}
	ofPod, valid := profile(p.spec)
	names := p.where(func(c map[string]any) bool {
		is, valid := profile(c)
		return is && !valid
	})
	if who := setters(ofPod && !valid, names); len(who) > 0 {
		bad = violation{"seccompProfile", strings.Join(who, " and ") +
			" must not set securityContext.seccompProfile.type to " + quoted(types.list())}
	}
	if !valid {
		missing = p.where(func(c map[string]any) bool {
			return obj.Map(c, "securityContext", "seccompProfile") == nil
		})
	}
	return bad, missing
}

func seccompBaseline(p *pod) violation {
	if p.version >= 19 {
		bad, _ := p.seccomp()
		return bad
	}
	forbidden := set{}
	annotation := func(key string) {
		value, ok := p.annotations[key]
		if ok && value != "runtime/default" && value != "docker/default" && !strings.HasPrefix(value, "localhost/") {
			forbidden[key+"="+strconv.Quote(value)] = true
		}
	}
	annotation("seccomp.security.alpha.kubernetes.io/pod")
	for _, c := range p.containers {
		annotation("container.seccomp.security.alpha.kubernetes.io/" + obj.String(c, "name"))
	}
	if len(forbidden) == 0 {
		return violation{}
	}
	return violation{"seccompProfile", "forbidden " + plural("annotation", len(forbidden)) + " " +
		strings.Join(forbidden.list(), ", ")}
}

func seccompRestricted(p *pod) violation {
	if p.version >= 25 && p.windows {
		return violation{}
	}
	bad, missing := p.seccomp()
	if bad.reason == "" && len(missing) > 0 {
		return violation{"seccompProfile", "pod or " + containers(missing) +
			` must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`}
	}
	return bad
}

// safeSysctls are those of which each pod has its own, with the first version that knows this.
var safeSysctls = map[string]int{"kernel.shm_rmid_forced": 0, "net.ipv4.ip_local_port_range": 0,
	"net.ipv4.tcp_syncookies": 0, "net.ipv4.ping_group_range": 0, "net.ipv4.ip_unprivileged_port_start": 0,
	"net.ipv4.ip_local_reserved_ports": 27, "net.ipv4.tcp_keepalive_time": 29, "net.ipv4.tcp_fin_timeout": 29,
	"net.ipv4.tcp_keepalive_intvl": 29, "net.ipv4.tcp_keepalive_probes": 29, "net.ipv4.tcp_rmem": 32,
	"net.ipv4.tcp_wmem": 32}

func sysctls(p *pod) violation {
	var names []string
	for _, s := range obj.Maps(p.spec, "securityContext", "sysctls") {
		name := obj.String(s, "name")
		if since, safe := safeSysctls[name]; !safe || p.version < since {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return violation{}
	}
	return violation{"forbidden sysctls", strings.Join(names, ", ")}
}

func hostProcess(p *pod) violation {
	bad := func(of map[string]any) bool { return context(of, "windowsOptions", "hostProcess") == true }
	who := setters(bad(p.spec), p.where(bad))
	if len(who) == 0 {
		return violation{}
	}
	return violation{"hostProcess", strings.Join(who, " and ") +
		" must not set securityContext.windowsOptions.hostProcess=true"}
}

func escalation(p *pod) violation {
	if p.version >= 25 && p.windows {
		return violation{}
	}
	names := p.where(func(c map[string]any) bool { return context(c, "allowPrivilegeEscalation") != false })
	if len(names) == 0 {
		return violation{}
	}
	return violation{"allowPrivilegeEscalation != false", containers(names) +
		" must set securityContext.allowPrivilegeEscalation=false"}
}

// restrictedTypes are the types of volumes, in the order in which kube-apiserver looks for them, that restricted does
// not allow; allowedTypes are those that it does.
var (
	restrictedTypes = strings.Fields("hostPath gcePersistentDisk awsElasticBlockStore gitRepo nfs iscsi glusterfs " +
		"rbd flexVolume cinder cephfs flocker fc azureFile vsphereVolume quobyte azureDisk photonPersistentDisk " +
		"portworxVolume scaleIO storageos")
	allowedTypes = strings.Fields("configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim " +
		"projected secret")
)

func volumeTypes(p *pod) violation {
	var names []string
	types := set{}
	for _, v := range obj.Maps(p.spec, "volumes") {
		has := func(kind string) bool { return v[kind] != nil }
		if slices.ContainsFunc(allowedTypes, has) {
			continue
		}
		kind := "unknown"
		if i := slices.IndexFunc(restrictedTypes, has); i >= 0 {
			kind = restrictedTypes[i]
		}
		names = append(names, obj.String(v, "name"))
		types[kind] = true
	}
	if len(names) == 0 {
		return violation{}
	}
	return violation{"restricted volume types", plural("volume", len(names)) + " " + quoted(names) +
		uses(len(names), "restricted volume type", len(types)) + quoted(types.list())}
}

func nonRoot(p *pod) violation {
	if p.version >= 35 && p.userNamespace {
		return violation{}
	}
	bad := func(of map[string]any) bool { return context(of, "runAsNonRoot") == false }
	const reason = "runAsNonRoot != true"
	if who := setters(bad(p.spec), p.where(bad)); len(who) > 0 {
		return violation{reason, strings.Join(who, " and ") + " must not set securityContext.runAsNonRoot=false"}
	}
	missing := p.where(func(c map[string]any) bool { return context(c, "runAsNonRoot") == nil })
	if context(p.spec, "runAsNonRoot") == true || len(missing) == 0 {
		return violation{}
	}
	return violation{reason, "pod or " + containers(missing) + " must set securityContext.runAsNonRoot=true"}
}

func rootUser(p *pod) violation {
	if p.version >= 35 && p.userNamespace {
		return violation{}
	}
	bad := func(of map[string]any) bool { return context(of, "runAsUser") == int64(0) }
	who := setters(bad(p.spec), p.where(bad))
	if len(who) == 0 {
		return violation{}
	}
	return violation{"runAsUser=0", strings.Join(who, " and ") + " must not set runAsUser=0"}
}
