package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"skiff/internal/hooks/spec"
	"skiff/internal/operators/reload"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/runtime/manager"
	"skiff/internal/runtime/process"
)

// advice is the end of messages of the runtime: the flag or the command to use.
var advice = controller.Advice{
	Advice: cache.Advice{
		ObjectBytes: "raise --max-object-kib",
		MirrorBytes: "raise --mirror-memory-mib and the memory limit",
		Server:      "check --server or the kubeconfig",
	},
	Install: map[string]string{
		"skiff.dev": "run `skiff crds install`",
		spec.Group:  "run `skiff crds install --hooks`",
	},
	Version: map[string]string{
		"skiff.dev": "run the skiff that these definitions belong to, or `skiff crds install` for this one",
	},
	Grant: grantAdvice,
}

// maxGranted bounds the namespaces of one command.
const maxGranted = 20

// grantAdvice is a command for an administrator to paste: asked with skiff's name, so that the missing rights are
// granted to skiff.
func grantAdvice(name, user string, namespaces, _ []string) string {
	if strings.HasPrefix(name, reload.Name+"-") { // one for each kind
		name = reload.Name
	}
	command := "skiff check --controllers " + name
	if user != "" {
		command += " --as " + user
	}
	if namespaces[0] != "" {
		command += " --watch-namespaces " + strings.Join(namespaces[:min(len(namespaces), maxGranted)], ",")
	}
	return grantedTo(user, command)
}

// ruleAdvice returns the Advice of a command by flags, given the rights for the flags: to add the missing rules. For a
// resource with a single object of interest, named by nameOf, the rule is for the name alone.
func ruleAdvice(rights []kube.Right, nameOf func(r kube.Resource) string) controller.Advice {
	out := advice
	out.Grant = func(_, user string, namespaces, resources []string) string {
		var rules []string
		for _, r := range rights {
			if !slices.Contains(resources, r.Resource.GroupResource()) {
				continue
			}
			names := ""
			if name := nameOf(r.Resource); name != "" {
				names = "resourceNames: [" + name + "], "
			}
			rules = append(rules, fmt.Sprintf("{apiGroups: [%s], resources: [%s], %sverbs: [%s]}",
				cmp.Or(r.Resource.Group, "''"), r.Resource.Plural, names, strings.Join(r.Verbs, ", ")))
		}
		slices.Sort(rules)
		return fmt.Sprintf("an administrator adds to a Role of %s in namespace %s: %s",
			cmp.Or(user, "the user that skiff runs as"), namespaces[0], strings.Join(rules, ", "))
	}
	return out
}

// grantedTo says the same as [grantedBy], also of a user whose name is not known.
func grantedTo(user, check string) string {
	text := grantedBy(check)
	if user == "" {
		text += " and, for --as, the user that skiff runs as"
	}
	return text
}

// grantedBy says that the rights missing in `skiff check` are granted by applying the output of a command.
func grantedBy(check string) string {
	return "an administrator grants it with `" + check + " -o yaml | kubectl apply -f -`"
}

// flagOf names the flag of the option that an error of the runtime is about.
func flagOf(err error) error {
	if option, ok := errors.AsType[*leader.OptionError](err); ok {
		switch option.Option {
		case "LeaseDuration":
			return fmt.Errorf("--leader-elect-lease-duration %s: %s", option.Value, option.Problem)
		case "RenewDeadline":
			return fmt.Errorf("--leader-elect-renew-deadline %s: %s", option.Value, option.Problem)
		case "RetryPeriod":
			return fmt.Errorf("--leader-elect-retry-period %s: %s", option.Value, option.Problem)
		}
	}
	if listen, ok := errors.AsType[*manager.ListenError](err); ok {
		flag := map[string]string{manager.Probes: "--health-probe-bind-address",
			manager.Metrics: "--metrics-bind-address", manager.DebugPages: "--pprof-bind-address",
			manager.LivePage: "--debug-bind-address"}[listen.What]
		if taken := PortTaken(listen.Address, listen.Err); taken != nil {
			return fmt.Errorf("%s %s: %w: choose another, or 0 for none", flag, listen.Address, taken)
		}
		return fmt.Errorf("%s %s: %w; give another host:port, or 0 for none", flag, listen.Address, listen.Err)
	}
	return err
}

// PortTaken says that a port is taken, and by whom where the system shows the program; nil: err is about something
// else.
func PortTaken(address string, err error) error {
	_, text, splitErr := net.SplitHostPort(address)
	port, numErr := strconv.Atoi(text)
	if !errors.Is(err, syscall.EADDRINUSE) || splitErr != nil || numErr != nil {
		return nil
	}
	by := process.Listener(port)
	if by != "" {
		by = " (by " + kube.Printable(by, maxProgram) + ")"
	}
	return fmt.Errorf("port %d is taken%s", port, by)
}

// maxProgram is more than the name of a program has in /proc.
const maxProgram = 100
