package check

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/install/manifests"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/podpolicy"
)

// The states of an admission policy, beside Installed, NotInstalled and Differs.
const (
	NotBound = "not bound"
	NotKnown = "not known"
)

// Policy is how one of skiff's admission policies is in the cluster. skiff works without them.
type Policy struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail"` // what else is known; the caller adds the next step
	Next   Next   `json:"-"`
}

var (
	policyResource = kube.Resource{Group: "admissionregistration.k8s.io", Version: "v1",
		Plural: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy", ClusterScoped: true}
	bindingResource = kube.Resource{Group: policyResource.Group, Version: "v1",
		Plural: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding", ClusterScoped: true}
)

// livePolicy is what is read of a policy: what skiff declares but for the resources, which go by --controllers.
type livePolicy struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		FailurePolicy   string   `json:"failurePolicy"`
		MatchConditions kube.Raw `json:"matchConditions"`
		Variables       kube.Raw `json:"variables"`
		Validations     kube.Raw `json:"validations"`
	} `json:"spec"`
}

// liveBinding is what is read of a binding.
type liveBinding struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		PolicyName        string   `json:"policyName"`
		ValidationActions []string `json:"validationActions"`
		Match             struct {
			Namespaces labels.Selector `json:"namespaceSelector"`
			Objects    labels.Selector `json:"objectSelector"`
			Rules      []kube.Raw      `json:"resourceRules"`
			Exclude    []kube.Raw      `json:"excludeResourceRules"`
		} `json:"matchResources"`
	} `json:"spec"`
}

// denies says whether a binding makes a policy refuse, and in which namespaces; none: in all.
func (b *liveBinding) denies(policy string) (in labels.Requirements, ok bool) {
	match := b.Spec.Match
	whole := len(match.Objects.Requirements())+len(match.Rules)+len(match.Exclude) == 0
	return match.Namespaces.Requirements(), whole && b.Spec.PolicyName == policy &&
		slices.Contains(b.Spec.ValidationActions, "Deny")
}

// namespaceName is the label that each namespace has of its own name.
const namespaceName = "kubernetes.io/metadata.name"

// refuses says whether the bindings make a policy refuse in all the namespaces that are checked.
func (o Options) refuses(policy string, bindings []*liveBinding) bool {
	all, missing := false, slices.Clone(o.Namespaces)
	selected, err := labels.Parse(o.Selector) // the same in one form
	same := func(in labels.Requirements) bool {
		return o.Selector != "" && err == nil && in.String() == selected.Requirements().String()
	}
	for _, b := range bindings {
		in, ok := b.denies(policy)
		if !ok {
			continue
		}
		all = all || len(in) == 0 || same(in)
		missing = slices.DeleteFunc(missing, func(namespace string) bool {
			return in.Match(kube.Labels{{Key: namespaceName, Value: namespace}})
		})
	}
	return all || len(o.Namespaces) > 0 && len(missing) == 0
}

// policies finds out which of the admission policies are there.
func policies(ctx context.Context, o Options) ([]Policy, error) {
	if len(o.Templates) == 0 {
		return []Policy{}, nil
	}
	live, err := kube.List[*livePolicy](ctx, o.Client, kube.Query{Resource: policyResource,
		LabelSelector: manifests.PolicySelector}, kube.ListOptions{})
	if err == nil {
		var bindings kube.ListResult[*liveBinding]
		bindings, err = kube.List[*liveBinding](ctx, o.Client, kube.Query{Resource: bindingResource,
			LabelSelector: manifests.PolicySelector}, kube.ListOptions{})
		if err == nil {
			return o.installed(live.Items, bindings.Items)
		}
	}
	detail := "this user may not list " + policyResource.Plural + " and their bindings"
	switch {
	case kube.IsNotFound(err):
		detail = "this server has no ValidatingAdmissionPolicies; Kubernetes has them from 1.30 on"
	case !kube.IsForbidden(err):
		return nil, fmt.Errorf("list the admission policies: %w", err)
	}
	var out []Policy
	for _, name := range manifests.PolicyNames {
		out = append(out, Policy{Name: name, State: NotKnown, Detail: detail})
	}
	return out, nil
}

// installed compares the policies of the cluster with those of this version. A namespaced installation has a suffix in
// their names.
func (o Options) installed(live []*livePolicy, bindings []*liveBinding) ([]Policy, error) {
	var out []Policy
	for _, name := range manifests.PolicyNames {
		found := false
		for _, l := range live {
			if l.Name != name && !strings.HasPrefix(l.Name, name+"-") {
				continue
			}
			found = true
			p, err := o.comparePolicy(name, l)
			if err != nil {
				return nil, err
			}
			if !o.refuses(l.Name, bindings) {
				p.State, p.Next, p.Detail = NotBound, NextBindPolicy, "no binding of it denies in "+o.where()
				if o.Selector == "" && len(o.Namespaces) == 0 {
					p.Next = NextBindPolicyAll
				}
			}
			out = append(out, p)
		}
		if !found {
			out = append(out, Policy{Name: name, State: NotInstalled, Next: NextPolicy})
		}
	}
	return out, nil
}

// where names the namespaces that are checked.
func (o Options) where() string {
	switch {
	case o.Selector != "":
		return "the namespaces with the labels " + o.Selector
	case len(o.Namespaces) > 0:
		return "each of the namespaces " + strings.Join(o.Namespaces, ",")
	}
	return "all namespaces"
}

// comparePolicy compares a policy with what this version prints for each --template-policy.
func (o Options) comparePolicy(name string, live *livePolicy) (Policy, error) {
	p := Policy{kube.Text(live.Name), Differs, "from that of this skiff", NextUpdatePolicy}
	body, err := json.Marshal(live.Spec)
	if err != nil {
		return p, fmt.Errorf("encode the policy %s: %w", p.Name, err)
	}
	have, err := patch.Decode(body)
	if err != nil {
		return p, fmt.Errorf("decode the policy %s: %w", p.Name, err)
	}
	for _, policy := range []podpolicy.Policy{podpolicy.Baseline, podpolicy.Restricted} {
		for _, object := range (manifests.Policies{Templates: o.Templates, TemplatePolicy: policy}).Objects() {
			if meta, _ := object["metadata"].(map[string]any); object["kind"] != policyResource.Kind ||
				meta["name"] != name {
				continue
			}
			spec, _ := object["spec"].(map[string]any)
			want := map[string]any{}
			for _, field := range []string{"failurePolicy", "matchConditions", "variables", "validations"} {
				if spec[field] != nil {
					want[field] = spec[field]
				}
			}
			if same, _ := patch.Covered(nil, want, have); same {
				p.State, p.Next, p.Detail = Installed, NextNone, "the same as in this skiff"
				if name == manifests.TemplatesPolicy {
					p.Detail += ", with --template-policy=" + policy.String()
				}
				return p, nil
			}
		}
	}
	return p, nil
}
