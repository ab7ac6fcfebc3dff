package spec

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

const (
	// maxFinalizerName is what the API allows behind the slash of a finalizer. The controller's name is part of it.
	maxFinalizerName = 63
	// usualTimeout is metacontroller's, for hooks without a positive timeout.
	usualTimeout = 10 * time.Second
)

// origin is where an object comes from.
type origin struct {
	file   string // "": a cluster
	dir    string // of the file
	before []*Controller
}

// controller reads an object whose kind is known, and checks which values fit each other. With a problem in found,
// the result is of no use.
func (o origin) controller(y *yaml.Node, found *Problems) *Controller {
	d, def := decoder{kind: scalarOf(y, "kind"), found: found}, definition{}
	d.document(y, &def)
	c := &Controller{Kind: def.Kind}
	if o.file != "" {
		c.Source = fmt.Sprintf("%s:%d", o.file, y.Line)
	}
	if d.ended || def.Kind == "" {
		return c
	}
	if meta := def.Metadata; meta != nil {
		c.Name, c.UID, c.Labels = meta.Name, meta.UID, labelsOf(meta.Labels)
		c.Paused = meta.Annotations[conditions.PausedAnnotation] == "true"
		c.AllowDeletes, c.ReportSync = meta.Annotations[AllowDeletes], meta.Annotations[ReportSync] == "true"
	}
	for _, other := range o.before {
		if other.Kind == c.Kind && other.Name == c.Name && c.Name != "" {
			d.wrong(&def.Metadata.Name, "there is a %s %s already, in %s", c.Kind, c.Name, other.Source)
		}
	}
	if def.Spec == nil {
		return c
	}
	d.rules(c, def.Spec)
	if at := def.Spec; d.has(&at.ResyncPeriod) {
		c.Resync = max(time.Second, time.Duration(at.ResyncPeriod)*time.Second)
	}
	o.hooks(&d, c, def.Spec)
	if prefix := strings.ToLower(c.Kind) + "-"; c.Finalize != nil && len(prefix+c.Name) > maxFinalizerName {
		d.wrong(&def.Metadata.Name, "must have at most %d characters: with a finalize hook it is part of the name "+
			"of a finalizer", maxFinalizerName-len(prefix))
	}
	c.Object = append(d.json[:len(d.json)-1], `,"status":{}}`...)
	return c
}

// labelsOf makes labels of a table.
func labelsOf(table map[string]string) kube.Labels {
	var out kube.Labels
	for _, key := range slices.Sorted(maps.Keys(table)) {
		out = append(out, kube.Label{Key: key, Value: table[key]})
	}
	return out
}

// rules reads which parents and children a controller has.
func (d *decoder) rules(c *Controller, spec *definitionSpec) {
	c.GenerateSelector = spec.GenerateSelector
	if spec.ParentResource != nil {
		c.Parents = []Parent{d.parent(spec.ParentResource)}
		c.Parents[0].FieldPaths = spec.ParentResource.RevisionHistory.FieldPaths
		if len(c.Parents[0].FieldPaths) == 0 {
			c.Parents[0].FieldPaths = []string{"spec"}
		}
	}
	for i := range spec.Resources {
		rule := &spec.Resources[i]
		if slices.ContainsFunc(c.Parents, func(p Parent) bool { return p.same(rule.Type) }) {
			d.around(&rule.APIVersion, "names %s a second time: make one rule of them", rule.GroupResource())
		}
		c.Parents = append(c.Parents, d.parent(rule))
	}
	for _, children := range [][]childRule{spec.ChildResources, spec.Attachments} {
		for i := range children {
			d.child(c, &children[i])
		}
	}
}

func (d *decoder) parent(rule *parentRule) Parent {
	p := Parent{Type: rule.Type, IgnoreStatusChanges: rule.IgnoreStatusChanges}
	if s := rule.LabelSelector; s != nil {
		p.Labels = requirements(s.MatchLabels, s.MatchExpressions)
		if err := p.Labels.Check(); err != nil {
			d.wrong(&rule.LabelSelector, "%v", err)
		}
	}
	if s := rule.AnnotationSelector; s != nil {
		p.Annotations = requirements(s.MatchAnnotations, s.MatchExpressions)
		keys := slices.Clone(p.Annotations)
		for i := range keys { // values of annotations may be any text; "" is a valid value of a label
			keys[i].Values = make([]string, len(keys[i].Values))
		}
		if err := keys.Check(); err != nil {
			d.wrong(&rule.AnnotationSelector, "%v", err)
		}
	}
	return p
}

func requirements(match map[string]string, expressions []expression) labels.Requirements {
	s := labels.Selector{MatchLabels: labelsOf(match)}
	for _, e := range expressions {
		s.MatchExpressions = append(s.MatchExpressions, labels.Requirement(e))
	}
	return s.Requirements()
}

// child adds a rule. The last rule with a method counts if two name a resource, as in metacontroller.
func (d *decoder) child(c *Controller, rule *childRule) {
	child := Child{Type: rule.Type, Method: cmp.Or(rule.UpdateStrategy.Method, OnDelete),
		Checks: rule.UpdateStrategy.StatusChecks.Conditions}
	if !c.IsComposite() { // which has no revisions: there is nothing to roll
		child.Method = Method(strings.TrimPrefix(string(child.Method), "Rolling"))
	}
	switch i := slices.IndexFunc(c.Children, func(o Child) bool { return o.same(child.Type) }); {
	case i < 0:
		c.Children = append(c.Children, child)
	case c.Children[i].APIVersion != child.APIVersion:
		d.around(&rule.APIVersion, "names %s in a second version: keep one of %s and %s", child.GroupResource(),
			c.Children[i].APIVersion, child.APIVersion)
	case child.Method != OnDelete:
		c.Children[i] = child
	}
}

// hooks reads the hooks of a controller.
func (o origin) hooks(d *decoder, c *Controller, spec *definitionSpec) {
	all := spec.Hooks
	if all == nil {
		return
	}
	for _, never := range []*any{&all.PreUpdateChild, &all.PostUpdateChild} {
		if d.has(never) {
			d.wrong(never, "this hook is never called, neither by metacontroller nor by skiff: remove it")
		}
	}
	var configs []config
	for i := range spec.EndpointConfigs {
		e := &spec.EndpointConfigs[i]
		configs = append(configs, config{e.Host, d.access(&e.access)})
	}
	c.Sync, c.Finalize, c.Customize = o.hook(d, all.Sync, configs), o.hook(d, all.Finalize, configs),
		o.hook(d, all.Customize, configs)
	if o.file == "" {
		return
	}
	c.Places = map[string]string{}
	rules := map[string]*hookRule{"sync": all.Sync, "finalize": all.Finalize, "customize": all.Customize}
	for name, rule := range rules {
		if rule == nil || rule.Webhook == nil {
			continue
		}
		for _, at := range []*place{d.places[&rule.Webhook.Service], d.places[&rule.Webhook.URL]} {
			if at.has {
				c.Places[name] = fmt.Sprintf("%s:%d", o.file, at.line)
			}
		}
	}
}

// hook reads a hook; nil: missing.
func (o origin) hook(d *decoder, rule *hookRule, configs []config) *Hook {
	if rule == nil {
		return nil
	}
	switch webhook, exec := d.has(&rule.Webhook), d.has(&rule.Exec); {
	case webhook && exec:
		d.around(&rule.Webhook, "must have exactly one of webhook and exec: keep one of them")
	case !webhook && !exec:
		d.around(&rule.Webhook, "must have exactly one of webhook and exec: write exec: {command: [python3, "+
			"hook.py]}, or webhook: {url: http://HOST:PORT/sync}")
	}
	h := &Hook{Version: 1}
	if rule.Version == "v2" {
		h.Version, h.Strict = 2, true
	}
	if w := rule.Webhook; w != nil {
		h.Timeout, h.Webhook = timeout(w.Timeout), d.webhook(w, configs)
		if d.has(&w.Mode) {
			h.Strict = w.Mode == "strict"
		}
	}
	if e := rule.Exec; e != nil {
		h.Timeout, h.Exec = timeout(e.Timeout), o.exec(d, &e.Exec)
	}
	return h
}

func timeout(text string) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return usualTimeout
}

func (d *decoder) webhook(rule *webhookRule, configs []config) *Webhook {
	w := &Webhook{URL: d.url(rule), Access: d.access(&rule.access)}
	if rule.ETag.Enabled {
		w.ETag = &ETag{Timeout: time.Duration(rule.ETag.Timeout) * time.Second}
	}
	if w.Access.IsZero() {
		w.Access = accessOf(configs, w.URL)
	}
	return w
}

// url returns where an endpoint is: a URL, or a Service with a path. Where both are given, the URL counts.
func (d *decoder) url(rule *webhookRule) string {
	const want = "must be http://HOST/PATH or https://HOST/PATH, without user name and password"
	service, path := rule.Service, rule.Path
	switch {
	case d.has(&rule.URL) && isEndpoint(rule.URL):
		return rule.URL
	case d.has(&rule.URL) && rule.URL == "": // the decoder has named the problem
	case d.has(&rule.URL) && strings.Contains(rule.URL, "@"): // the password is not shown
		d.wrong(&rule.URL, want)
	case d.has(&rule.URL):
		d.wrong(&rule.URL, want+", is %q", kube.Printable(rule.URL, maxShown))
	case !d.has(&rule.Service):
		d.around(&rule.URL, "must have a url, or a service and a path")
	case !d.has(&rule.Path):
		d.wrong(&rule.Path, "is missing: a service needs one, such as /sync")
	case service != nil:
		port := 80
		if d.has(&service.Port) {
			port = service.Port
		}
		whole := cmp.Or(service.Protocol, "http") + "://" + service.Name + "." + service.Namespace + ":" +
			strconv.Itoa(port) + path
		named := service.Name != "" && service.Namespace != "" && port > 0 // else the problem is named
		if path != "" && path[0] != '/' || named && !isEndpoint(whole) {
			d.wrong(&rule.Path, "must be a path such as /sync, is %q", kube.Printable(path, maxShown))
		}
		return whole
	}
	return ""
}

func (o origin) exec(d *decoder, e *Exec) *Exec {
	if e.Mode = cmp.Or(e.Mode, Oneshot); e.Env == nil {
		e.Env = map[string]string{}
	}
	if o.dir == "" && e.Dir != "" && !filepath.IsAbs(e.Dir) {
		d.wrong(&e.Dir, "must be absolute, as the object does not come from a file")
	}
	if !filepath.IsAbs(e.Dir) {
		e.Dir = filepath.Join(o.dir, e.Dir)
	}
	if len(e.Command) == 0 {
		return e
	}
	switch program := e.Command[0]; { // a path becomes absolute
	case program == "":
		d.wrong(&e.Command[0], "is missing")
	case !strings.Contains(program, "/") || filepath.IsAbs(program):
	case e.Dir == "":
		d.wrong(&e.Command[0], "must be absolute or a bare name, as there is no dir that %q could be in",
			kube.Printable(program, maxShown))
	default:
		e.Command[0] = filepath.Join(e.Dir, program)
	}
	return e
}

// access reads how an endpoint is reached.
func (d *decoder) access(rule *access) Access {
	var a Access
	if ca := rule.CABundle; ca != nil {
		given := 0
		for _, one := range []any{&ca.Inline, &ca.Secret, &ca.ConfigMap} {
			if d.has(one) {
				given++
			}
		}
		if given != 1 {
			d.around(&ca.Inline, "must have exactly one of inline, secretRef and configMapRef")
		}
		if a.CAInline = ca.Inline; d.has(&ca.Inline) && !x509.NewCertPool().AppendCertsFromPEM([]byte(ca.Inline)) {
			d.wrong(&ca.Inline, "has no certificate in PEM form")
		}
		for _, ref := range []*bundleKey{ca.Secret, ca.ConfigMap} {
			if ref != nil {
				a.CA = &Reference{ref == ca.ConfigMap, ref.Namespace, ref.Name, ref.Key}
			}
		}
	}
	if tls := rule.ClientTLS; tls != nil && tls.Secret != nil {
		a.ClientTLS = &Pair{tls.Secret.Namespace, tls.Secret.Name, tls.Cert, tls.Key}
	}
	if basic := rule.BasicAuth; basic != nil && basic.Secret != nil {
		a.Basic = &Pair{basic.Secret.Namespace, basic.Secret.Name, basic.User, basic.Password}
	}
	if auth := rule.Authorization; auth != nil {
		a.Scheme = cmp.Or(strings.TrimSpace(auth.Type), "Bearer")
		if strings.EqualFold(a.Scheme, "basic") {
			d.wrong(&auth.Type, "Basic is not sent this way: use basicAuth")
		} else if !scheme.MatchString(a.Scheme) {
			d.wrong(&auth.Type, "must be a scheme such as Bearer, is %q", kube.Printable(a.Scheme, maxShown))
		}
		a.Bearer = auth.Secret
		if d.has(&rule.BasicAuth) {
			d.around(&rule.BasicAuth, "has authorization and basicAuth: keep one of them")
		}
	}
	return a
}

// config is an entry of endpointConfigs.
type config struct {
	host   string // HOST or HOST:PORT
	access Access
}

// accessOf finds the first entry for the host of a URL. The port of the scheme may be left out.
func accessOf(configs []config, at string) Access {
	u, err := url.Parse(at)
	if err != nil {
		return Access{} // the problem has been named
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	for _, e := range configs {
		if strings.EqualFold(e.host, u.Host) ||
			u.Port() == "" && strings.EqualFold(e.host, net.JoinHostPort(u.Hostname(), usual)) ||
			strings.EqualFold(e.host, strings.TrimSuffix(u.Host, ":"+usual)) {
			return e.access
		}
	}
	return Access{}
}
