package spec

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// definition is the object of a controller, as in metacontroller's custom resource definitions. Tags are read by
// [decoder]:
//
//	yaml     the name of the field, "*": any other field is allowed, too
//	only     the kind of controller that has the field
//	need     the problem of a missing value or an empty string; empty: of an empty string alone
//	default  the value of a missing string, for hooks, too
//	is       the format of a string, or of those in a list or an object; keys: of the keys of an object
//	enum     the only values of a string
//	range    the least and the greatest number
type definition struct {
	APIVersion string          `yaml:"apiVersion" need:"must be metacontroller.k8s.io/v1alpha1" enum:"metacontroller.k8s.io/v1alpha1"`
	Kind       string          `yaml:"kind" need:"is missing" enum:"CompositeController,DecoratorController"`
	Metadata   *metadata       `yaml:"metadata" need:"is missing"`
	Spec       *definitionSpec `yaml:"spec" need:"is missing"`
	Status     omitted         `yaml:"status"`
}

type metadata struct {
	Name          string            `yaml:"name" need:"is missing" is:"object"`
	UID           string            `yaml:"uid"`
	Labels        map[string]string `yaml:"labels"`
	Annotations   map[string]string `yaml:"annotations"`
	ManagedFields omitted           `yaml:"managedFields"` // as in kubectl; often larger than all else
	Others        any               `yaml:"*"`
}

// omitted is a field hidden from hooks.
type omitted any

type definitionSpec struct {
	ParentResource   *parentRule  `yaml:"parentResource" only:"CompositeController" need:"is missing"`
	ChildResources   []childRule  `yaml:"childResources" only:"CompositeController"`
	GenerateSelector bool         `yaml:"generateSelector" only:"CompositeController"`
	Resources        []parentRule `yaml:"resources" only:"DecoratorController" need:"is missing"`
	Attachments      []childRule  `yaml:"attachments" only:"DecoratorController"`
	ResyncPeriod     int          `yaml:"resyncPeriodSeconds" range:"-2147483648,2147483647"`
	EndpointConfigs  []endpoint   `yaml:"endpointConfigs"`
	Hooks            *hookRules   `yaml:"hooks" need:"is missing: a controller without a sync hook decides nothing"`
}

type parentRule struct {
	Type
	LabelSelector *struct {
		MatchLabels      map[string]string `yaml:"matchLabels"`
		MatchExpressions []expression      `yaml:"matchExpressions"`
	} `yaml:"labelSelector"`
	AnnotationSelector *struct {
		MatchAnnotations map[string]string `yaml:"matchAnnotations"`
		MatchExpressions []expression      `yaml:"matchExpressions"`
	} `yaml:"annotationSelector" only:"DecoratorController"`
	IgnoreStatusChanges bool `yaml:"ignoreStatusChanges"`
	RevisionHistory     struct {
		FieldPaths []string `yaml:"fieldPaths" is:"path"`
	} `yaml:"revisionHistory" only:"CompositeController"`
}

type expression struct {
	Key      string   `yaml:"key" need:"is missing"`
	Operator string   `yaml:"operator" need:"is missing"`
	Values   []string `yaml:"values"`
}

type childRule struct {
	Type
	UpdateStrategy struct {
		Method       Method `yaml:"method" enum:"OnDelete,Recreate,InPlace,RollingRecreate,RollingInPlace"`
		StatusChecks struct {
			Conditions []StatusCheck `yaml:"conditions"`
		} `yaml:"statusChecks" only:"CompositeController"`
	} `yaml:"updateStrategy"`
}

type hookRules struct {
	Sync            *hookRule `yaml:"sync" need:"is missing: it decides the children of each parent"`
	Finalize        *hookRule `yaml:"finalize"`
	Customize       *hookRule `yaml:"customize"`
	PreUpdateChild  any       `yaml:"preUpdateChild"`
	PostUpdateChild any       `yaml:"postUpdateChild"`
}

type hookRule struct {
	Version string       `yaml:"version" default:"v1" enum:"v1,v2"`
	Webhook *webhookRule `yaml:"webhook"`
	Exec    *execRule    `yaml:"exec"`
}

type webhookRule struct {
	access
	URL     string `yaml:"url" empty:"is missing"`
	Service *struct {
		Namespace string `yaml:"namespace" need:"is missing" is:"namespace"`
		Name      string `yaml:"name" need:"is missing" is:"service"`
		Port      int    `yaml:"port" range:"1,65535"`
		Protocol  string `yaml:"protocol" enum:"http,https"`
	} `yaml:"service"`
	Path    string `yaml:"path"`
	Timeout string `yaml:"timeout" is:"duration"`
	ETag    struct {
		Enabled bool `yaml:"enabled"`
		Timeout int  `yaml:"cacheTimeoutSeconds" range:"0,2147483647"`
		Cleanup int  `yaml:"cacheCleanupSeconds" range:"0,2147483647"` // entries are checked when they are read
	} `yaml:"etag"`
	Mode string `yaml:"responseUnMarshallMode" enum:"loose,strict"`
}

type execRule struct {
	Exec
	Timeout string `yaml:"timeout" is:"duration"`
}

// endpoint is an entry of endpointConfigs.
type endpoint struct {
	access
	Host string `yaml:"host" need:"is missing" is:"host"`
}

// access says how an endpoint is reached, of a webhook or of an entry of endpointConfigs.
type access struct {
	CABundle *struct {
		Inline    string     `yaml:"inline"`
		Secret    *bundleKey `yaml:"secretRef"`
		ConfigMap *bundleKey `yaml:"configMapRef"`
	} `yaml:"caBundle"`
	ClientTLS *struct {
		Secret *objectKey `yaml:"secretRef" need:"is missing"`
		Cert   string     `yaml:"certKey" default:"tls.crt" is:"data"`
		Key    string     `yaml:"privateKeyKey" default:"tls.key" is:"data"`
	} `yaml:"clientTLS"`
	Authorization *struct {
		Type   string     `yaml:"type" default:"Bearer"`
		Secret *Reference `yaml:"secretRef" need:"is missing"`
	} `yaml:"authorization"`
	BasicAuth *struct {
		Secret   *objectKey `yaml:"secretRef" need:"is missing"`
		User     string     `yaml:"usernameKey" default:"username" is:"data"`
		Password string     `yaml:"passwordKey" default:"password" is:"data"`
	} `yaml:"basicAuth"`
}

// objectKey names a Secret or a ConfigMap.
type objectKey struct {
	Namespace string `yaml:"namespace" need:"is missing" is:"namespace"`
	Name      string `yaml:"name" need:"is missing" is:"object"`
}

type bundleKey struct {
	objectKey
	Key string `yaml:"key" default:"ca.crt" need:"is missing" is:"data"`
}

// format is the form of a string.
type format struct {
	ok   func(string) bool
	want string
}

// label is a part of a host name that begins with a letter: the name of a Service, a plural, a version.
var label = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// scheme is that of an Authorization header (a token of RFC 9110).
var scheme = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

var formats = map[string]format{
	"object":  {kube.ValidName, "the name of an object (small letters, digits, '-' and '.')"},
	"service": {label.MatchString, "the name of a Service"},
	"namespace": {regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`).MatchString,
		"the name of a namespace"},
	"version": {isVersion, "GROUP/VERSION, or v1 for the core group"},
	"plural":  {label.MatchString, "the plural of a resource, in small letters, as in `kubectl api-resources`"},
	"data": {regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`).MatchString,
		"a key of its data (letters, digits, '-', '_' and '.')"},
	"path": {func(s string) bool {
		return !strings.ContainsAny(s, "[]") && !strings.Contains("."+s+".", "..")
	}, "a path such as spec.template"},
	"duration": {func(s string) bool { _, err := time.ParseDuration(s); return err == nil },
		"a duration such as 10s or 1m30s"},
	"host": {func(s string) bool { return isEndpoint("http://"+s) && !strings.ContainsAny(s, "/?#") },
		"HOST or HOST:PORT"},
	"argument": {func(s string) bool { return !strings.Contains(s, "\x00") }, "without NUL"},
	"variable": {func(s string) bool { return envName.MatchString(s) && !strings.HasPrefix(s, "SKIFF_") },
		"no name for a variable: want letters, digits and '_', and not SKIFF_ at the beginning"},
}

// envName is the name of an environment variable in any shell.
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func isVersion(s string) bool {
	group, version, ok := strings.Cut(s, "/")
	if !ok {
		group, version = "core", s
	}
	return kube.ValidName(group) && label.MatchString(version)
}

// isEndpoint says whether s is the URL of an endpoint. A password there would be in errors and logs.
func isEndpoint(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return false
	}
	port, err := strconv.Atoi(u.Port())
	return u.Port() == "" && !strings.HasSuffix(u.Host, ":") || err == nil && port >= 1 && port <= 65535
}
