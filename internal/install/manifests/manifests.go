// Package manifests writes the Kubernetes objects that install skiff: its namespace, service account, roles,
// Deployment and PodDisruptionBudget. The roles are made from the rights that the controllers declare, so that they
// cannot differ from the code.
//
// It applies nothing and talks to no server: what it returns is YAML with comments. It does not know the controllers
// (package cli does). All of it are pure functions, which any goroutine may call; it is on no event path.
package manifests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
)

// Install says what to install. All fields are needed, but Namespaces, Args, Extra, Hooks and RBACOnly.
type Install struct {
	Account    Account  // that skiff runs as; its name is that of all that is printed
	By         string   // the command that prints it, and what comes before it: a comment
	Command    []string // of skiff, such as run
	Image      string
	Replicas   int
	Memory     string       // the limit of a pod
	MemoryWhy  string       // why that much: a comment
	Namespaces []string     // to work in, with a Role in each; empty: all, with a ClusterRole
	Args       []string     // of the command, beside those that every installation has
	Rights     []kube.Right // of the controllers
	Election   []kube.Right // of leader election
	Extra      []string     // further documents, behind the roles
	Hooks      *HookFiles   // nil: all is in the image
	RBACOnly   bool         // no Deployment, no PodDisruptionBudget
}

// YAML returns the manifests, to be applied in their order.
func (i Install) YAML() string {
	a := i.Account
	var docs []string
	if len(i.Namespaces) == 0 {
		docs = append(docs, a.head("v1", "Namespace", "", a.Namespace)+
			"    pod-security.kubernetes.io/enforce: restricted\n")
	}
	docs = append(docs, a.head("v1", "ServiceAccount", a.Namespace, a.Name))
	for _, ns := range i.Namespaces {
		// Who applies a Role must have its rights, and an administrator of a namespace has none on a kind that the
		// cluster may lack.
		docs = append(docs, a.Grant(ns, a.Name, Rules(kube.Needed(i.Rights))))
	}
	if len(i.Namespaces) == 0 {
		docs = append(docs, a.Grant("", a.Name, Rules(i.Rights)))
	}
	docs = append(docs, a.Grant(a.Namespace, a.Name+"-leader-election", Rules(i.Election)))
	docs = append(docs, i.Extra...)
	if i.Hooks != nil {
		docs = append(docs, i.files())
	}
	if !i.RBACOnly {
		docs = append(docs, i.deployment(), i.disruptionBudget())
	}
	return i.By + strings.Join(docs, "---\n")
}

// Ports of the Deployment.
const (
	probePort   = 8081
	metricsPort = 8080
)

// Ports are those that skiff listens on in a pod.
var Ports = []string{strconv.Itoa(probePort), strconv.Itoa(metricsPort)}

func (i Install) deployment() string {
	args := slices.Clone(i.Command)
	if len(i.Namespaces) > 0 {
		args = append(args, "--watch-namespaces="+strings.Join(i.Namespaces, ","))
	}
	args = append(append(args, "--leader-elect", "--log-format=json",
		fmt.Sprintf("--health-probe-bind-address=:%d", probePort),
		fmt.Sprintf("--metrics-bind-address=:%d", metricsPort)), i.Args...)
	list := ""
	for _, a := range args {
		list += fmt.Sprintf("            - %q\n", a)
	}
	before, mounts, second, image, command, user := "", "", "", i.Image, "", ""
	if h := i.Hooks; h != nil {
		before, mounts, second = h.volumes(i.filesName())+h.copies(i.Image), h.mounts(), h.container()
		if h.Runtime != "" {
			image, command = h.Runtime, "          command: ["+programDirectory+"/skiff]\n"
			user = "        runAsUser: 65532 # that of this image may be root\n"
		}
	}
	return i.Account.head("apps/v1", "Deployment", i.Account.Namespace, i.Account.Name) + fmt.Sprintf(`spec:
  replicas: %d # one works, the others stand by with warm caches
  selector:
    matchLabels:
      %[2]s
  template:
    metadata:
      labels:
        %[2]s
    spec:
      serviceAccountName: %[7]s
      terminationGracePeriodSeconds: 40 # skiff stops within 30 s
      securityContext:
        runAsNonRoot: true # the image has the user 65532
%[14]s        seccompProfile:
          type: RuntimeDefault
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              %[2]s
%[10]s      containers:
        - name: skiff
          image: %[3]q
          imagePullPolicy: IfNotPresent
%[13]s          args:
%[4]s          env: # of the Go runtime; GOMEMLIMIT follows the memory limit below
            - name: GOMAXPROCS # more processors only wake each other: a sixth more CPU with 8 than with 2
              value: "2"
            - name: GOGC # a tenth less memory than with 100; 50 takes a sixth more CPU
              value: "75"
          ports:
            - name: probes
              containerPort: %[5]d
            - name: metrics
              containerPort: %[6]d
          livenessProbe: # the process, and whether a watch has been silent for half an hour
            httpGet:
              path: /livez
              port: probes
            periodSeconds: 20
            timeoutSeconds: 5
          readinessProbe:
            httpGet:
              path: /readyz
              port: probes
%[11]s          # %[9]s
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
            limits:
              memory: %[8]s
%[15]s%[12]s`, i.Replicas, i.Account.label(), image, list, probePort, metricsPort, word(i.Account.Name), i.Memory,
		strings.ReplaceAll(i.MemoryWhy, "\n", "\n          # "), before, mounts, second, command, user,
		confined)
}

func (i Install) disruptionBudget() string {
	return i.Account.head("policy/v1", "PodDisruptionBudget", i.Account.Namespace, i.Account.Name) + fmt.Sprintf(`spec:
  maxUnavailable: 1 # unlike minAvailable, it lets a node be drained also where there is one replica
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      %s
`, i.Account.label())
}
