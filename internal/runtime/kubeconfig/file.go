package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kube"
)

// cluster, user and kubeContext are the entries of a kubeconfig, with kubectl's field names. Other fields are ignored,
// as kubectl ignores unknown fields.
type cluster struct {
	Server        string `yaml:"server"`
	CA            string `yaml:"certificate-authority"`
	CAData        string `yaml:"certificate-authority-data"`
	TLSServerName string `yaml:"tls-server-name"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
	ProxyURL      Secret `yaml:"proxy-url"` // may carry a password
	Extensions    []struct {
		Name      string    `yaml:"name"`
		Extension yaml.Node `yaml:"extension"`
	} `yaml:"extensions"`
	origin origin
}

type user struct {
	Token          Secret              `yaml:"token"`
	TokenFile      string              `yaml:"tokenFile"`
	ClientCert     string              `yaml:"client-certificate"`
	ClientCertData Secret              `yaml:"client-certificate-data"`
	ClientKey      string              `yaml:"client-key"`
	ClientKeyData  Secret              `yaml:"client-key-data"`
	As             string              `yaml:"as"`
	AsUID          string              `yaml:"as-uid"`
	AsGroups       []string            `yaml:"as-groups"`
	AsExtra        map[string][]string `yaml:"as-user-extra"`
	Username       Secret              `yaml:"username"`
	Password       Secret              `yaml:"password"`
	Exec           *execConfig         `yaml:"exec"`
	AuthProvider   *struct {
		Name   string            `yaml:"name"`
		Config map[string]Secret `yaml:"config"`
	} `yaml:"auth-provider"`
	ofPod  bool // the service account of skiff's own pod
	origin origin
}

type kubeContext struct {
	Cluster   string `yaml:"cluster"`
	User      string `yaml:"user"`
	Namespace string `yaml:"namespace"`
	origin    origin
}

// origin says where each field of an entry was written, in the words an error should use: `FILE:LINE: user "x":
// token`, or a flag.
type origin struct {
	entry  string            // for fields not in the map
	fields map[string]string // by YAML field name
}

func (o origin) at(field string) string {
	if where, ok := o.fields[field]; ok {
		return where
	}
	if o.entry == "" {
		return field
	}
	return o.entry + ": " + field
}

func (o origin) with(field, where string) origin {
	fields := maps.Clone(o.fields)
	if fields == nil {
		fields = map[string]string{}
	}
	fields[field] = where
	return origin{entry: o.entry, fields: fields}
}

// document is one kubeconfig file as YAML has it; entry values stay nodes until their name is known.
type document struct {
	APIVersion     string `yaml:"apiVersion"`
	Kind           string `yaml:"kind"`
	CurrentContext string `yaml:"current-context"`
	Clusters       []struct {
		Name    string    `yaml:"name"`
		Cluster yaml.Node `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string    `yaml:"name"`
		User yaml.Node `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string    `yaml:"name"`
		Context yaml.Node `yaml:"context"`
	} `yaml:"contexts"`
}

// merged is the content of all files together.
type merged struct {
	files          []string // read so far
	CurrentContext string
	clusters       map[string]cluster
	users          map[string]user
	contexts       map[string]kubeContext
}

func (m *merged) name() string { return strings.Join(m.files, string(filepath.ListSeparator)) }
func (m *merged) empty() bool  { return len(m.clusters)+len(m.users)+len(m.contexts) == 0 }
func (m *merged) contextNames() []string {
	return slices.Sorted(maps.Keys(m.contexts))
}

// loadFiles reads and merges the files that flags and environment name: for entries the first file that has the name
// wins as a whole, for current-context the first that sets it (client-go, tools/clientcmd/loader.go).
func loadFiles(f Flags, env Env) (*merged, error) {
	m := &merged{clusters: map[string]cluster{}, users: map[string]user{}, contexts: map[string]kubeContext{}}
	if f.Kubeconfig != "" {
		return m, m.add(f.Kubeconfig, env) // explicit: it must exist, and nothing is merged into it
	}
	list := env.Getenv("KUBECONFIG")
	paths := filepath.SplitList(list)
	if list == "" && env.Home != "" {
		paths = []string{filepath.Join(env.Home, ".kube", "config")}
	}
	var seen []string
	for _, path := range paths {
		if path == "" || slices.Contains(seen, path) {
			continue
		}
		seen = append(seen, path)
		if err := m.add(path, env); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
	}
	if list != "" && len(m.files) == 0 {
		env.warnf("KUBECONFIG: none of these files exists: %s", strings.Join(seen, ", "))
	}
	return m, nil
}

// add reads one file and merges it; entries of earlier files win.
func (m *merged) add(path string, env Env) error {
	data, err := ReadFile(path)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	var doc document
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", path, yamlError(err))
	}
	lastCounts(&root, func(key *yaml.Node) {
		env.warnf("kubeconfig %s:%d: key %q is there again: the last one counts, as for kubectl; remove the others",
			path, key.Line, kube.Printable(key.Value, maxShownKey))
	})
	if err := root.Decode(&doc); err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", path, yamlError(err))
	}
	if doc.Kind != "" && doc.Kind != "Config" || doc.APIVersion != "" && doc.APIVersion != "v1" {
		return fmt.Errorf("read kubeconfig %s: it holds apiVersion %q, kind %q, not a v1 Config",
			path, doc.APIVersion, doc.Kind)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	m.files = append(m.files, path)
	if m.CurrentContext == "" {
		m.CurrentContext = doc.CurrentContext
	}
	return m.addEntries(path, dir, doc)
}

// maxShownKey is how much of a key a warning quotes: those of a kubeconfig have at most 30 characters.
const maxShownKey = 60

// lastCounts drops each member of a mapping whose key is there again later, as kubectl's reader does.
func lastCounts(node *yaml.Node, again func(key *yaml.Node)) {
	for _, child := range node.Content { // an alias has none: the anchor is visited in its own place
		lastCounts(child, again)
	}
	if node.Kind != yaml.MappingNode {
		return
	}
	last := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; key.Kind == yaml.ScalarNode {
			if _, ok := last[key.Value]; ok {
				again(key)
			}
			last[key.Value] = i
		}
	}
	kept := node.Content[:0:0]
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; key.Kind != yaml.ScalarNode || last[key.Value] == i {
			kept = append(kept, key, node.Content[i+1])
		}
	}
	node.Content = kept
}

func (m *merged) addEntries(path, dir string, doc document) error {
	inFile := map[string]bool{} // kind and name: twice in one file is an error, twice in two files is the merge rule
	for i := range doc.Clusters {
		var c cluster
		o, err := decodeEntry(path, "cluster", doc.Clusters[i].Name, &doc.Clusters[i].Cluster, &c, inFile)
		if err != nil {
			return err
		}
		c.CA, c.origin = resolve(dir, c.CA), o
		setIfAbsent(m.clusters, doc.Clusters[i].Name, c)
	}
	for i := range doc.Users {
		var u user
		o, err := decodeEntry(path, "user", doc.Users[i].Name, &doc.Users[i].User, &u, inFile)
		if err != nil {
			return err
		}
		u.TokenFile, u.ClientCert = resolve(dir, u.TokenFile), resolve(dir, u.ClientCert)
		u.ClientKey, u.origin = resolve(dir, u.ClientKey), o
		if u.Exec != nil && strings.ContainsRune(u.Exec.Command, filepath.Separator) {
			u.Exec.Command = resolve(dir, u.Exec.Command) // a bare name is looked up in PATH
		}
		setIfAbsent(m.users, doc.Users[i].Name, u)
	}
	for i := range doc.Contexts {
		var c kubeContext
		o, err := decodeEntry(path, "context", doc.Contexts[i].Name, &doc.Contexts[i].Context, &c, inFile)
		if err != nil {
			return err
		}
		c.origin = o
		setIfAbsent(m.contexts, doc.Contexts[i].Name, c)
	}
	return nil
}

func setIfAbsent[V any](m map[string]V, name string, v V) {
	if _, ok := m[name]; !ok {
		m[name] = v
	}
}

// decodeEntry decodes one named entry into `into` and notes the line of each of its fields.
func decodeEntry(path, kind, name string, node *yaml.Node, into any, inFile map[string]bool) (origin, error) {
	o := origin{entry: fmt.Sprintf("%s: %s %q", path, kind, name), fields: map[string]string{}}
	if name == "" {
		return o, fmt.Errorf("read kubeconfig %s: line %d: a %s without a name", path, node.Line, kind)
	}
	if inFile[kind+" "+name] {
		return o, fmt.Errorf("read kubeconfig %s: line %d: %s %q is there twice", path, node.Line, kind, name)
	}
	inFile[kind+" "+name] = true
	if node.IsZero() {
		return o, nil
	}
	if err := node.Decode(into); err != nil {
		return o, fmt.Errorf("read kubeconfig %s: %s %q: %w", path, kind, name, yamlError(err))
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		o.fields[key.Value] = fmt.Sprintf("%s:%d: %s %q: %s", path, key.Line, kind, name, key.Value)
	}
	return o, nil
}

// target picks a context's cluster and user.
func (m *merged) target(context string) (*target, error) {
	c, ok := m.contexts[context]
	if !ok {
		if len(m.files) == 0 {
			return nil, fmt.Errorf("context %q: %w: no kubeconfig was found", context, ErrUnknownContext)
		}
		return nil, fmt.Errorf("context %q: %w in %s: there are %v", context, ErrUnknownContext, m.name(),
			m.contextNames())
	}
	cl, ok := m.clusters[c.Cluster]
	if !ok {
		return nil, fmt.Errorf("%s: no cluster of the name %q", c.origin.at("cluster"), c.Cluster)
	}
	u, ok := m.users[c.User]
	if !ok && c.User != "" {
		return nil, fmt.Errorf("%s: no user of the name %q", c.origin.at("user"), c.User)
	}
	return &target{cluster: cl, user: u, namespace: c.Namespace, context: context}, nil
}

// yamlQuoted matches the start of a value in a type error of yaml.v3, perhaps the start of a token.
var yamlQuoted = regexp.MustCompile("`[^`]*`")

// yamlError keeps line and reason of a YAML error and drops quoted values.
func yamlError(err error) error {
	var typeErr *yaml.TypeError
	if errors.As(err, &typeErr) {
		err = errors.New(strings.Join(typeErr.Errors, "; "))
	}
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	msg = yamlQuoted.ReplaceAllString(msg, "value")
	return errors.New(strings.ReplaceAll(msg, "kubeconfig.", ""))
}
