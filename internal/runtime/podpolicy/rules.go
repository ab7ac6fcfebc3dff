package podpolicy

import (
	"slices"
	"strings"
)

// rule is a rule of a standard: which values a field may have.
type rule struct {
	path       []string // of the field; "*" means each item of a list
	must       string   // what it must be
	values              // that it may have
	restricted bool     // a rule of restricted only
	// Root in a user namespace of the pod's own (spec.hostUsers: false) is an ordinary user on the node, so some rules
	// do not apply. Before Kubernetes 1.33, servers drop that field by default, and such a pod may run as root there.
	notInUserNamespace bool
	notOnWindows       bool // spec.os.name is windows, where the field cannot be set
}

// restrict makes a rule one of restricted only.
func (r rule) restrict() rule { r.restricted = true; return r }

// unlessUserNamespace and unlessWindows exempt pods from a rule.
func (r rule) unlessUserNamespace() rule { r.notInUserNamespace = true; return r }
func (r rule) unlessWindows() rule       { r.notOnWindows = true; return r }

func field(path, must string, v values) rule {
	return rule{path: strings.Split(strings.ReplaceAll(path, "[*]", ".*"), "."), must: must, values: v}
}

// The values that the standards allow.
var (
	profiles = []string{"RuntimeDefault", "Localhost"}
	// capabilities are those that container runtimes give by default.
	capabilities = []string{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
		"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
	seLinuxTypes = []string{"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
	// sysctls are those that are separate for each pod.
	sysctls = []string{"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
		"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
		"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
		"net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"}
	volumes = []string{"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
		"projected", "secret"}
)

// podRules are the rules on what a pod says as a whole.
var podRules = slices.Concat([]rule{
	field("spec.hostNetwork", "must be false", notTrue),
	field("spec.hostPID", "must be false", notTrue),
	field("spec.hostIPC", "must be false", notTrue),
	field("spec.volumes[*].hostPath", "must not be set", unset),
	field("spec.securityContext.sysctls[*].name", "must be one of "+strings.Join(sysctls, ", "), oneOf(sysctls)),
	field("metadata.annotations", "must set no AppArmor profile but runtime/default and localhost/...",
		appArmorAnnotations),
	field("spec.volumes[*]", "must be one of "+strings.Join(volumes, ", "), onlyVolumes).restrict(),
}, securityContext("spec."))

// containerRules are the rules on what a container says.
var containerRules = slices.Concat([]rule{
	field("securityContext.privileged", "must be false", notTrue),
	field("securityContext.capabilities.add[*]", "must be one of "+strings.Join(capabilities, ", "),
		oneOf(capabilities)),
	field("securityContext.procMount", "must be Default", optional("Default")).unlessUserNamespace(),
	field("ports[*].hostPort", "must not be set", zero),
	field("securityContext.allowPrivilegeEscalation", "must be false", isFalse).restrict().unlessWindows(),
	field("securityContext.capabilities.drop", "must have ALL", hasAll).restrict().unlessWindows(),
	field("securityContext.capabilities.add[*]", "must be NET_BIND_SERVICE or nothing",
		oneOf([]string{"NET_BIND_SERVICE"})).restrict().unlessWindows(),
	field("securityContext.procMount", "must be Default", optional("Default")).restrict(),
}, securityContext(""), hosts())

// securityContext are the rules on what a pod and a container both can say.
func securityContext(prefix string) []rule {
	prefix += "securityContext."
	return []rule{
		field(prefix+"windowsOptions.hostProcess", "must be false", notTrue),
		field(prefix+"seLinuxOptions.type", "must be one of "+strings.Join(seLinuxTypes[1:], ", "),
			optional(seLinuxTypes...)),
		field(prefix+"seLinuxOptions.user", "must not be set", optional("")),
		field(prefix+"seLinuxOptions.role", "must not be set", optional("")),
		field(prefix+"seccompProfile.type", "must be RuntimeDefault or Localhost", optional(profiles...)),
		field(prefix+"appArmorProfile.type", "must be RuntimeDefault or Localhost", optional(profiles...)),
		field(prefix+"runAsNonRoot", "must be true", notFalse).restrict().unlessUserNamespace(),
		field(prefix+"runAsUser", "must not be 0", notZero).restrict().unlessUserNamespace(),
	}
}

// inherited are what restricted requires of each container or of its pod.
var inherited = []rule{
	field("securityContext.runAsNonRoot", "must be true, here or in the securityContext of the pod", set).
		restrict().unlessUserNamespace(),
	field("securityContext.seccompProfile.type",
		"must be RuntimeDefault or Localhost, here or in the securityContext of the pod", set).
		restrict().unlessWindows(),
}

// hosts are the rules on probes and hooks: they are requests of the node, which may go to the pod only.
func hosts() []rule {
	var rules []rule
	for _, handler := range []string{"livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart",
		"lifecycle.preStop"} {
		for _, action := range []string{"httpGet", "tcpSocket"} {
			rules = append(rules, field(handler+"."+action+".host", "must not be set", optional("")))
		}
	}
	return rules
}

// values are those that a field may have, in Go and in CEL. They stand side by side, so that skiff and the API server
// do not come to read a rule differently.
type values struct {
	allowed func(any) bool // called with nil where the field is not set
	cel     string         // the same of {v}, which is null where the field is not set
}

var (
	unset   = values{func(v any) bool { return v == nil }, "{v} == null"}
	set     = values{func(v any) bool { return v != nil }, "{v} != null"}
	notTrue = values{func(v any) bool { return v == nil || v == false }, "{v} == null || {v} == false"}
	// notFalse and isFalse are for the fields whose default is the other value.
	notFalse = values{func(v any) bool { return v == nil || v == true }, "{v} == null || {v} == true"}
	isFalse  = values{func(v any) bool { return v == false }, "{v} == false"}
	zero     = values{func(v any) bool { return v == nil || v == int64(0) }, "{v} == null || {v} == 0"}
	notZero  = values{func(v any) bool {
		n, ok := v.(int64)
		return v == nil || ok && n != 0
	}, "{v} == null || type({v}) == int && {v} != 0"}
	// hasAll allows a list that drops all capabilities.
	hasAll = values{func(v any) bool {
		list, _ := v.([]any)
		return slices.Contains(list, any("ALL"))
	}, "type({v}) == list && 'ALL' in {v}"}
	// onlyVolumes allows a volume of an allowed type. One without a type is an empty directory.
	onlyVolumes = values{func(v any) bool {
		volume, ok := v.(map[string]any)
		for key, source := range volume {
			if key != "name" && source != nil && !slices.Contains(volumes, key) {
				return false
			}
		}
		return ok
	}, "type({v}) == map && {v}.all(k, k == 'name' || k.startsWith('$') || {v}[k] == null || k in " +
		literal(volumes) + ")"} // $patch and the like direct a merge
	// appArmorAnnotations allows the annotations that older clusters read in place of appArmorProfile.
	appArmorAnnotations = values{func(v any) bool {
		annotations, ok := v.(map[string]any)
		for key, value := range annotations {
			profile, isText := value.(string)
			if strings.HasPrefix(key, appArmorKeys) && !(isText &&
				(profile == "" || profile == "runtime/default" || strings.HasPrefix(profile, "localhost/"))) {
				return false
			}
		}
		return ok || v == nil
	}, "{v} == null || type({v}) == map && {v}.all(k, !k.startsWith('" + appArmorKeys + "') || {v}[k] == null || " +
		"{v}[k] in ['', 'runtime/default'] || type({v}[k]) == string && {v}[k].startsWith('localhost/'))"}
)

const appArmorKeys = "container.apparmor.security.beta.kubernetes.io/"

// oneOf allows the values of a list.
func oneOf(list []string) values {
	return values{func(v any) bool {
		s, ok := v.(string)
		return ok && slices.Contains(list, s)
	}, "{v} in " + literal(list)}
}

// optional allows values, or nothing.
func optional(list ...string) values {
	one := oneOf(list)
	return values{func(v any) bool { return v == nil || one.allowed(v) }, "{v} == null || " + one.cel}
}

// literal is a list of texts in CEL. None of them has a quote.
func literal(list []string) string { return "['" + strings.Join(list, "', '") + "']" }
