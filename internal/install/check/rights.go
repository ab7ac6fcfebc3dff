package check

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"skiff/internal/install/manifests"
	"skiff/internal/runtime/kube"
)

// parallel is how many questions are asked at a time: a hundred namespaces are some 5,000.
const parallel = 8

var (
	accessReviews = kube.Resource{Group: "authorization.k8s.io", Version: "v1", Plural: "selfsubjectaccessreviews",
		Kind: "SelfSubjectAccessReview", ClusterScoped: true}
	reviews = kube.Resource{Group: "authorization.k8s.io", Version: "v1", Plural: "subjectaccessreviews",
		Kind: "SubjectAccessReview", ClusterScoped: true}
	selfReviews = kube.Resource{Group: "authentication.k8s.io", Version: "v1", Plural: "selfsubjectreviews",
		Kind: "SelfSubjectReview", ClusterScoped: true}
)

// rights adds what the user may do in a scope to the report, and to its manifest what is missing.
func (r *Report) rights(ctx context.Context, c *kube.Client, s subject, scope Scope, rights []kube.Right) error {
	var questions []question
	asked := map[string]bool{} // verb and resource: controllers share some
	for _, right := range rights {
		for _, verb := range right.Verbs {
			if key := verb + " " + right.String(); !asked[key] {
				asked[key] = true
				questions = append(questions, question{right: right, verb: verb, namespace: scope.Namespace})
			}
		}
	}
	if err := ask(ctx, c, questions); err != nil {
		return err
	}
	scope.Checked, scope.Missing = len(questions), []Missing{}
	var missing []kube.Right
	for _, q := range questions {
		if q.allowed {
			continue
		}
		q.right.Verbs = []string{q.verb}
		missing = append(missing, q.right)
		name, last := q.right.String(), len(scope.Missing)-1
		if last >= 0 && scope.Missing[last].Resource == name {
			scope.Missing[last].Verbs = append(scope.Missing[last].Verbs, q.verb)
		} else {
			scope.Missing = append(scope.Missing, Missing{name, []string{q.verb}})
		}
	}
	r.Scopes = append(r.Scopes, scope)
	if len(missing) > 0 {
		r.OK = false
		r.Manifest += grant(s, scope.Namespace, missing)
	}
	return nil
}

// question is whether the user may do something, and the answer.
type question struct {
	right     kube.Right
	verb      string
	namespace string
	allowed   bool
}

// ask has all questions answered by the server.
func ask(ctx context.Context, c *kube.Client, questions []question) error {
	errs := make([]error, parallel)
	var asking sync.WaitGroup
	for worker := range parallel {
		asking.Go(func() {
			for i := worker; i < len(questions) && errs[worker] == nil; i += parallel {
				questions[i].allowed, errs[worker] = questions[i].ask(ctx, c)
			}
		})
	}
	asking.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the others are most likely the same
		}
	}
	return nil
}

func (q question) ask(ctx context.Context, c *kube.Client) (bool, error) {
	var review struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err := c.Create(ctx, accessReviews, "", map[string]any{
		"apiVersion": accessReviews.APIVersion(), "kind": accessReviews.Kind,
		"spec": map[string]any{"resourceAttributes": map[string]any{"namespace": q.namespace, "verb": q.verb,
			"group": q.right.Resource.Group, "resource": q.right.Resource.Plural,
			"subresource": q.right.Subresource}}}, &review, kube.WriteOptions{})
	if err != nil {
		return false, fmt.Errorf("ask whether %s of %s is allowed: %w", q.verb, q.right, err)
	}
	return review.Status.Allowed, nil
}

// nobody is a user whom no role names.
const nobody = "skiff.dev:check:nobody"

// grantsAll asks whether a user whom no role names may do something that does not exist: only a server without roles
// says yes. A user who may not ask that, as skiff's own, gets no.
func grantsAll(ctx context.Context, c *kube.Client) (bool, error) {
	var review struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err := c.Create(ctx, reviews, "", map[string]any{"apiVersion": reviews.APIVersion(), "kind": reviews.Kind,
		"spec": map[string]any{"user": nobody, "resourceAttributes": map[string]any{"verb": "check",
			"group": "skiff.dev", "resource": "nothing"}}}, &review, kube.WriteOptions{})
	if err != nil && !kube.IsForbidden(err) {
		return false, fmt.Errorf("ask whether the server allows everything to everyone: %w", err)
	}
	return err == nil && review.Status.Allowed, nil
}

// subject is whom a binding names: a service account, or a user.
type subject struct{ namespace, account, user string }

// whoAmI asks the server whom it takes us for.
func whoAmI(ctx context.Context, c *kube.Client) (subject, error) {
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	err := c.Create(ctx, selfReviews, "", map[string]any{"apiVersion": selfReviews.APIVersion(),
		"kind": selfReviews.Kind}, &review, kube.WriteOptions{})
	name := kube.Printable(review.Status.UserInfo.Username, maxName)
	if err == nil && name == "" {
		err = errors.New("the answer has no user name")
	}
	if err != nil {
		return subject{}, fmt.Errorf("ask the server for the name of the user: %w", err)
	}
	s := subject{user: name}
	if rest, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		s.namespace, s.account, _ = strings.Cut(rest, ":")
	}
	return s, nil
}

// grant is a Role, or a ClusterRole where namespace is "", with these rights, and its binding. Its name goes by the
// rights, so that it does not replace one that was applied for others.
func grant(s subject, namespace string, rights []kube.Right) string {
	rules := manifests.YAML(manifests.Rules(rights))
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(rules + s.user)) // of a hash, Write never fails
	name, kind, place := fmt.Sprintf("skiff-missing-%08x", hash.Sum32()), "Role", "\n  namespace: "+namespace
	if namespace == "" {
		kind, place = "ClusterRole", ""
	}
	who := fmt.Sprintf("apiGroup: rbac.authorization.k8s.io\n    kind: User\n    name: %q", s.user)
	if s.account != "" {
		who = fmt.Sprintf("kind: ServiceAccount\n    name: %q\n    namespace: %q", s.account, s.namespace)
	}
	return fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]s
metadata:
  name: %[2]s%[3]s
rules:
%[4]s---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
metadata:
  name: %[2]s%[3]s
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: %[1]s
  name: %[2]s
subjects:
  - %[5]s
`, kind, name, place, rules, who)
}

var namespaceResource = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// namespace is what is read of a namespace: only its name.
type namespace struct {
	kube.Meta `json:"metadata"`
}

// Selection is what a namespace selector selects.
type Selection struct {
	Selector   string   `json:"selector"`
	Allowed    bool     `json:"allowed"`    // this user may list and watch namespaces
	Namespaces []string `json:"namespaces"` // that are selected now, sorted
}

// selected finds out which namespaces o.Selector selects, and adds it to the report. Where this user may not list
// namespaces, the right to do so is among those that are missing.
func (r *Report) selected(ctx context.Context, o Options, s subject) ([]string, error) {
	r.Selection = &Selection{Selector: o.Selector, Namespaces: []string{}}
	before := r.OK
	r.OK = true
	scope := Scope{For: "the namespace selector"}
	if err := r.rights(ctx, o.Client, s, scope, o.SelectRights); err != nil {
		return nil, err
	}
	r.Selection.Allowed, r.OK = r.OK, r.OK && before
	if !r.Selection.Allowed {
		return nil, nil
	}
	list, err := kube.List[*namespace](ctx, o.Client,
		kube.Query{Resource: namespaceResource, LabelSelector: o.Selector}, kube.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, ns := range list.Items {
		r.Selection.Namespaces = append(r.Selection.Namespaces, ns.Name)
	}
	slices.Sort(r.Selection.Namespaces)
	r.OK = r.OK && len(list.Items) > 0
	return r.Selection.Namespaces, nil
}

// scopes checks the rights of the controllers, in each namespace in which they are to work.
func (r *Report) scopes(ctx context.Context, o Options, s subject) error {
	o.Rights = slices.DeleteFunc(slices.Clone(o.Rights), func(one kube.Right) bool {
		return one.Optional && !o.Client.Serves(ctx, one.Resource)
	})
	namespaces := o.Namespaces
	if o.Selector != "" {
		var err error
		if namespaces, err = r.selected(ctx, o, s); err != nil || len(namespaces) == 0 {
			return err
		}
		// A ClusterRole is enough for all of them, as many as there are.
		all := Report{OK: true}
		if err := all.rights(ctx, o.Client, s, Scope{For: "the controllers"}, o.Rights); err != nil {
			return err
		}
		if all.OK {
			r.Scopes = append(r.Scopes, all.Scopes...)
			return nil
		}
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if len(o.ClusterWide) > 0 {
		if err := r.rights(ctx, o.Client, s, Scope{For: "finding the controllers"}, o.ClusterWide); err != nil {
			return err
		}
	}
	for _, ns := range namespaces {
		if err := r.rights(ctx, o.Client, s, Scope{Namespace: ns, For: "the controllers"}, o.Rights); err != nil {
			return err
		}
	}
	return nil
}
