package spec

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// hooks reads the hooks of a controller.
func (o origin) hooks(c *Controller, spec value) {
	all := spec.field("hooks")
	if !all.has() {
		all.wrong("is missing: a controller without a sync hook decides nothing")
		return
	}
	for _, name := range []string{"preUpdateChild", "postUpdateChild"} {
		if at := all.field(name); at.has() {
			at.wrong("this hook is never called, neither by metacontroller nor by skiff: remove it")
		}
	}
	all.only("sync", "finalize", "customize", "preUpdateChild", "postUpdateChild")
	endpoints := spec.field("endpointConfigs").endpoints()
	if all.kind == object && !all.field("sync").has() {
		all.wrong("sync is missing: it decides the children of each parent")
	}
	c.Sync = o.hook(all.field("sync"), endpoints)
	c.Finalize = o.hook(all.field("finalize"), endpoints)
	c.Customize = o.hook(all.field("customize"), endpoints)
	if o.file == "" {
		return
	}
	c.Places = map[string]string{}
	for _, h := range c.Hooks() {
		at := all.field(h.Name).field("webhook")
		for _, name := range []string{"service", "url"} {
			if v := at.field(name); v.has() {
				c.Places[h.Name] = fmt.Sprintf("%s:%d", o.file, v.line)
			}
		}
	}
}

// hook reads one hook, nil for one that is missing.
func (o origin) hook(v value, endpoints []endpoint) *Hook {
	if !v.only("version", "webhook", "exec") {
		return nil
	}
	v.byDefault("version", "v1")
	h := &Hook{Version: 1}
	if v.field("version").oneOf("v1", "v2") == "v2" {
		h.Version, h.Strict = 2, true
	}
	webhook, exec := v.field("webhook"), v.field("exec")
	if webhook.has() == exec.has() {
		v.wrong("must have exactly one of webhook and exec")
	}
	if webhook.has() {
		h.Timeout, h.Webhook = webhook.field("timeout").timeout(), webhook.webhook(endpoints)
		if mode := webhook.field("responseUnMarshallMode"); mode.has() {
			h.Strict = mode.oneOf("loose", "strict") == "strict"
		}
	}
	if exec.has() {
		h.Timeout, h.Exec = exec.field("timeout").timeout(), o.exec(exec)
	}
	return h
}

// webhook reads an HTTP endpoint.
func (v value) webhook(endpoints []endpoint) *Webhook {
	if !v.only(append(accessFields(), "url", "service", "path", "timeout", "etag", "responseUnMarshallMode")...) {
		return nil
	}
	w := &Webhook{URL: v.url(), Access: v.access()}
	etag := v.field("etag")
	etag.only("enabled", "cacheTimeoutSeconds", "cacheCleanupSeconds")
	timeout := time.Duration(etag.field("cacheTimeoutSeconds").int(0, 1<<31-1)) * time.Second
	etag.field("cacheCleanupSeconds").int(0, 1<<31-1) // entries are checked when they are read
	if etag.field("enabled").bool() {
		w.ETag = &ETag{Timeout: timeout}
	}
	if w.Access.IsZero() {
		w.Access = accessOf(endpoints, w.URL)
	}
	return w
}

// url reads where an endpoint is: a URL, or a Service with a path. Where both are given, the URL counts.
func (v value) url() string {
	at, service, path := v.field("url"), v.field("service"), v.field("path")
	service.only("name", "namespace", "port", "protocol")
	if at.has() {
		const want = "http://HOST/PATH or https://HOST/PATH, without user name and password"
		if text := at.string(); strings.Contains(text, "@") && !isEndpoint(text) { // its password is not shown
			at.wrong("must be %s", want)
			return ""
		}
		return at.required().matching(isEndpoint, want)
	}
	if !service.has() {
		v.wrong("must have a url, or a service and a path")
		return ""
	}
	name := service.field("name").required().matching(dnsLabel.MatchString, "the name of a Service")
	in := service.field("namespace").required().matching(namespace.MatchString, "the name of a namespace")
	protocol := service.field("protocol").oneOf("http", "https")
	port := int64(80)
	if p := service.field("port"); p.has() {
		port = p.int(1, 65535)
	}
	rest := path.string()
	whole := protocol + "://" + name + "." + in + ":" + strconv.FormatInt(port, 10) + rest
	switch {
	case !path.has():
		v.wrong("path is missing: a service needs one, such as /sync")
	case rest != "" && !strings.HasPrefix(rest, "/"), name != "" && in != "" && !isEndpoint(whole):
		path.wrong("must be a path such as /sync, is %q", kube.Printable(rest, maxShown))
	}
	return whole
}

// isEndpoint says whether s is the URL of an endpoint. A password in it would be in errors and logs.
func isEndpoint(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return false
	}
	port, err := strconv.Atoi(u.Port())
	return u.Port() == "" && !strings.HasSuffix(u.Host, ":") || err == nil && port >= 1 && port <= 65535
}

// envName is what the name of an environment variable can be in each shell.
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// exec reads a program.
func (o origin) exec(v value) *Exec {
	if !v.only("command", "mode", "timeout", "env", "dir") {
		return nil
	}
	v.byDefault("mode", string(Oneshot))
	e := &Exec{Mode: Mode(v.field("mode").oneOf(string(Oneshot), string(Lines))), Env: map[string]string{},
		Dir: o.dir}
	if dir := v.field("dir"); dir.has() {
		e.Dir = dir.required().noNUL()
	}
	if e.Dir != "" && !filepath.IsAbs(e.Dir) {
		if o.dir == "" {
			v.field("dir").wrong("must be absolute, as the object does not come from a file")
		}
		e.Dir = filepath.Join(o.dir, e.Dir)
	}
	command := v.field("command").required()
	if command.kind == list && len(command.values) == 0 {
		command.wrong("is empty")
	}
	for arg := range command.items(maxItems) {
		e.Command = append(e.Command, arg.noNUL())
	}
	if len(e.Command) > 0 {
		o.program(command, e)
	}
	for name, member := range v.field("env").members() {
		if !envName.MatchString(name) || strings.HasPrefix(name, "SKIFF_") {
			member.wrong("is no name for a variable: want letters, digits and '_', and not SKIFF_ at the beginning")
		}
		e.Env[name] = member.noNUL()
	}
	return e
}

// program makes the path of the program of a command absolute.
func (o origin) program(command value, e *Exec) {
	first := value{command.values[0], command.path + "[0]", command.found}
	switch name := first.required().string(); {
	case !strings.Contains(name, "/") || filepath.IsAbs(name):
	case e.Dir == "":
		first.wrong("must be absolute or a bare name, as there is no dir that %q could be in",
			kube.Printable(name, maxShown))
	default:
		e.Command[0] = filepath.Join(e.Dir, name)
	}
}

// noNUL reads a string that can be an argument of a process.
func (v value) noNUL() string {
	return v.matching(func(s string) bool { return !strings.Contains(s, "\x00") }, "without NUL")
}
