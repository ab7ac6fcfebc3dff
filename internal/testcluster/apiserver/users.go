package apiserver

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// authorizeRequest refuses what the user of a request, impersonated or not, may not do.
func (s *Server) authorizeRequest(r *request) error {
	if r.noUser != nil {
		return r.noUser
	}
	var err error
	if r.user, err = s.impersonate(r.user, r.Header); err != nil {
		return err
	}
	return s.authorize(rolesIn(s.store), r.user, r.wanted())
}

// impersonate returns the user that the headers name, if the one who asks may impersonate it, and else that one.
func (s *Server) impersonate(by kinds.User, h http.Header) (kinds.User, error) {
	name, groups := h.Get("Impersonate-User"), slices.Clone(h.Values("Impersonate-Group"))
	const extra = "Impersonate-Extra-"
	extras := slices.DeleteFunc(slices.Sorted(maps.Keys(h)),
		func(k string) bool { return !strings.HasPrefix(k, extra) })
	uid := h.Get("Impersonate-Uid")
	if name == "" {
		if len(groups)+len(extras) > 0 || uid != "" {
			return by, httpd.BadRequest("requested groups, a UID or extra fields without impersonating a user")
		}
		return by, nil
	}
	want := []auth.Action{{Resource: "users", Name: name}}
	ns, account, isAccount := strings.Cut(strings.TrimPrefix(name, auth.AccountPrefix), ":")
	if isAccount = isAccount && strings.HasPrefix(name, auth.AccountPrefix); isAccount {
		want[0] = auth.Action{Resource: "serviceaccounts", Namespace: ns, Name: account}
	}
	for _, g := range groups {
		want = append(want, auth.Action{Resource: "groups", Name: g})
	}
	for _, k := range extras {
		key, err := url.PathUnescape(strings.ToLower(strings.TrimPrefix(k, extra)))
		if err != nil {
			return by, httpd.BadRequest("the name of the header %q cannot be read", k)
		}
		for _, v := range h.Values(k) {
			want = append(want, auth.Action{Group: "authentication.k8s.io", Resource: "userextras", Subresource: key,
				Name: v})
		}
	}
	if uid != "" {
		want = append(want, auth.Action{Group: "authentication.k8s.io", Resource: "uids", Name: uid})
	}
	roles := rolesIn(s.store)
	for _, a := range want {
		a.Verb = "impersonate"
		if err := s.authorize(roles, by, a); err != nil {
			return by, err
		}
	}
	if isAccount && len(groups) == 0 {
		groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + ns}
	} else if strings.HasPrefix(name, "system:node:") && len(groups) == 0 {
		groups = []string{"system:nodes"}
	}
	all := auth.Authenticated
	if name == auth.Anonymous {
		all = auth.Unauthenticated
	}
	if !slices.Contains(groups, all) && !slices.Contains(groups, auth.Unauthenticated) {
		groups = append(groups, all)
	}
	return kinds.User{Name: name, Groups: groups}, nil
}

// authorize returns the 403 for what a user may not do. Without RBAC that is only the anonymous user.
func (s *Server) authorize(roles auth.Objects, u kinds.User, a auth.Action) error {
	if !s.opts.RBAC && (u.Name != auth.Anonymous || auth.Public(a)) {
		return nil
	}
	ok, why := roles.Allowed(u, a)
	if ok {
		return nil
	}
	resource, where := a.Resource, "at the cluster scope"
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", u.Name, a.Verb, resource, a.Group, where)
	if a.Path != "" {
		text = fmt.Sprintf("User %q cannot %s path %q", u.Name, a.Verb, a.Path)
	}
	text = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;").Replace(text)
	if why != "" {
		text += ": " + why
	}
	return httpd.Forbidden(a.Group, a.Resource, a.Name, text)
}

// stored reads what is stored, in a transaction or outside of any.
type stored interface {
	Get(table string, key store.Key) *store.Object
	List(table, namespace string) []*store.Object
}

func rolesIn(from stored) auth.Objects {
	table := func(plural string) string { return plural + "." + auth.Group }
	return auth.Objects{
		Get: func(plural, namespace, name string) kinds.Object {
			if o := from.Get(table(plural), store.Key{Namespace: namespace, Name: name}); o != nil {
				return o.Value()
			}
			return nil
		},
		List: func(plural, namespace string) []kinds.Object {
			return obj.Each(from.List(table(plural), namespace), (*store.Object).Value)
		},
	}
}

// wanted is what a request wants to do, by its path.
func (r *request) wanted() auth.Action {
	if !r.forResource {
		return auth.Action{Verb: strings.ToLower(r.Method), Path: r.URL.Path}
	}
	a := auth.Action{Verb: r.verb, Group: r.asked.Group, Resource: r.asked.Plural, Subresource: r.sub,
		Namespace: r.namespace, Name: r.name}
	if a.Resource == "namespaces" {
		a.Namespace = a.Name
	}
	if a.Name == "" && (a.Verb == "list" || a.Verb == "watch") {
		if f, err := obj.ParseFields(r.query.Get("fieldSelector")); err == nil {
			a.Name, _ = f.Exact("metadata.name")
		}
	}
	return a
}

// action is what a routed request wants, with another verb.
func (r *request) action(verb string) auth.Action {
	return auth.Action{Verb: verb, Group: r.kind.Group, Resource: r.kind.Plural, Namespace: r.namespace, Name: r.name}
}

// checkGrant returns the 403 for a role or binding that gives rights which its author does not have.
func (s *Server) checkGrant(tx *store.Tx, r *request, next, cur map[string]any) error {
	if !s.opts.RBAC || r.kind.Group != auth.Group || auth.IsMaster(r.user) || cur != nil && onlyCollected(next, cur) {
		return nil
	}
	roles, rules, aggregates := rolesIn(tx), auth.RulesOf(next), false
	if ref := obj.Map(next, "roleRef"); ref != nil {
		bind := auth.Action{Verb: "bind", Group: cmp.Or(obj.String(ref, "apiGroup"), auth.Group),
			Namespace: r.namespace, Resource: strings.ToLower(obj.String(ref, "kind")) + "s",
			Name: obj.String(ref, "name")}
		if ok, _ := roles.Allowed(r.user, bind); ok {
			return nil
		}
		var problem string
		if rules, problem = roles.Referenced(ref, r.namespace); problem != "" {
			return httpd.NotFound(r.kind.Resource, bind.Name) // the real server names the binding, too
		}
	} else {
		if ok, _ := roles.Allowed(r.user, r.action("escalate")); ok {
			return nil
		}
		for _, o := range []map[string]any{next, cur} {
			aggregates = aggregates || len(obj.Slice(o, "aggregationRule", "clusterRoleSelectors")) > 0
		}
	}
	if text := roles.Escalation(r.user, r.namespace, rules, aggregates); text != "" {
		return httpd.Forbidden(auth.Group, r.kind.Plural, obj.String(next, "metadata", "name"), text)
	}
	return nil
}

// onlyCollected says whether a change is one of those that the garbage collector makes.
func onlyCollected(next, cur map[string]any) bool {
	except := []string{"ownerReferences", "finalizers", "managedFields"}
	return obj.EqualExcept(next, cur, "metadata", "kind", "apiVersion") &&
		obj.EqualExcept(obj.Map(next, "metadata"), obj.Map(cur, "metadata"), except...)
}

// reviewByRoles answers an access review by the roles.
func (s *Server) reviewByRoles(r *request, o map[string]any) (map[string]any, error) {
	user, spec := r.user, obj.Map(o, "spec")
	switch r.kind.Kind {
	case "SelfSubjectRulesReview":
		namespace := obj.String(spec, "namespace")
		if namespace == "" {
			return nil, httpd.BadRequest("no namespace on request")
		}
		return rulesStatus(rolesIn(s.store).Rules(user, namespace)), nil
	case "SubjectAccessReview", "LocalSubjectAccessReview":
		user = kinds.User{Name: obj.String(spec, "user"), Groups: obj.Texts(spec, "groups")}
	}
	var a auth.Action
	if attributes := obj.Map(spec, "resourceAttributes"); attributes != nil {
		at := func(name string) string { return obj.String(attributes, name) }
		a = auth.Action{Verb: at("verb"), Group: at("group"), Resource: at("resource"), Subresource: at("subresource"),
			Namespace: at("namespace"), Name: at("name")}
	} else {
		a = auth.Action{Verb: obj.String(spec, "nonResourceAttributes", "verb"),
			Path: obj.String(spec, "nonResourceAttributes", "path")}
	}
	ok, why := rolesIn(s.store).Allowed(user, a)
	return obj.OmitEmpty(map[string]any{"allowed": ok, "reason": why}), nil
}

func rulesStatus(rules []auth.Rule, problems string) map[string]any {
	resource, nonResource := []any{}, []any{}
	for _, r := range rules {
		verbs := obj.Anys(r.Verbs)
		if len(r.Resources) > 0 {
			resource = append(resource, obj.OmitEmpty(map[string]any{"verbs": verbs, "apiGroups": obj.Anys(r.Groups),
				"resources": obj.Anys(r.Resources), "resourceNames": obj.Anys(r.Names)}))
		}
		if len(r.URLs) > 0 {
			nonResource = append(nonResource, map[string]any{"verbs": verbs, "nonResourceURLs": obj.Anys(r.URLs)})
		}
	}
	status := obj.OmitEmpty(map[string]any{"evaluationError": problems})
	status["incomplete"], status["resourceRules"], status["nonResourceRules"] = false, resource, nonResource
	return status
}

// aggregateRoles fills in the rules of cluster roles that aggregate those of others.
func (s *Server) aggregateRoles() {
	by := &request{kind: s.registry.find(auth.Group, "v1", "clusterroles")}
	s.store.Update(func(tx *store.Tx) error {
		roles := tx.List(by.kind.TableName(), "")
		for _, o := range roles {
			rules, aggregates := auth.Aggregated(o.Value(), obj.Each(roles, (*store.Object).Value))
			if !aggregates || slices.EqualFunc(rules, obj.Slice(o.Value(), "rules"), patch.Equal) {
				continue
			}
			by.change(tx, "clusterrole-aggregation-controller", o, func(next map[string]any) { next["rules"] = rules })
			s.wakeHousekeeper() // another role may aggregate this one
		}
		return nil
	})
}
