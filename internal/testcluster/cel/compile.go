package cel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/ast"
	v1 "k8s.io/api/admissionregistration/v1"
	plugin "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/obj"
)

// What follows does what the functions compilePolicy of the real server do, which are not exported. All expressions go
// through boundQuantities.

// base is what expressions of the newest version may use.
func base() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// compileValidating compiles the expressions of a policy, which it changes.
func compileValidating(p *v1.ValidatingAdmissionPolicy) validating.Validator {
	compiler, err := plugincel.NewCompositedCompiler(base())
	err = errors.Join(err, boundConditions(p.Spec.MatchConditions), boundVariables(p.Spec.Variables))
	var validations, messages, annotations []plugincel.ExpressionAccessor
	for _, v := range p.Spec.Validations {
		if v.Message == "" {
			v.Message = "failed expression: " + strings.TrimSpace(v.Expression)
		}
		err = errors.Join(err, bound(&v.Expression), bound(&v.MessageExpression))
		validations = append(validations,
			&validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		var message plugincel.ExpressionAccessor
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message)
	}
	for _, a := range p.Spec.AuditAnnotations {
		err = errors.Join(err, bound(&a.ValueExpression))
		annotations = append(annotations,
			&validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	if err != nil {
		return validating.NewValidator(nil, nil, nil, nil, p.Spec.FailurePolicy, err)
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler.CompileAndStoreVariables(variables(p.Spec.Variables), options, environment.StoredExpressions)
	forMessages := options
	forMessages.HasAuthorizer = false
	compile := func(list []plugincel.ExpressionAccessor,
		o plugincel.OptionalVariableDeclarations) plugincel.ConditionEvaluator {
		return compiler.CompileCondition(list, o, environment.StoredExpressions)
	}
	return validating.NewValidator(compile(validations, options),
		matcher(compiler, p.Spec.MatchConditions, options, p.Spec.FailurePolicy, "policy", "validate", p.Name),
		compile(annotations, options), compile(messages, forMessages), p.Spec.FailurePolicy, nil)
}

// compileMutating compiles the expressions of a policy, which it changes.
func compileMutating(p *v1.MutatingAdmissionPolicy) mutating.PolicyEvaluator {
	compiler, err := plugincel.NewCompositedCompiler(base())
	err = errors.Join(err, boundConditions(p.Spec.MatchConditions), boundVariables(p.Spec.Variables))
	if err != nil {
		return mutating.PolicyEvaluator{Error: err}
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler.CompileAndStoreVariables(variables(p.Spec.Variables), options, environment.StoredExpressions)
	forPatches := options
	forPatches.HasPatchTypes = true
	compile := func(e plugincel.ExpressionAccessor) plugincel.MutatingEvaluator {
		return compiler.CompileMutatingEvaluator(e, forPatches, environment.StoredExpressions)
	}
	var patchers []patch.Patcher
	for _, m := range p.Spec.Mutations {
		switch {
		case m.PatchType == v1.PatchTypeJSONPatch && m.JSONPatch != nil:
			err = errors.Join(err, bound(&m.JSONPatch.Expression))
			patchers = append(patchers,
				patch.NewJSONPatcher(compile(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression})))
		case m.PatchType == v1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			err = errors.Join(err, bound(&m.ApplyConfiguration.Expression))
			patchers = append(patchers, patch.NewApplyConfigurationPatcher(
				compile(&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression})))
		}
	}
	m := matcher(compiler, p.Spec.MatchConditions, options, p.Spec.FailurePolicy, "policy", "validate", p.Name)
	return mutating.PolicyEvaluator{Mutators: patchers, CompositedCompiler: compiler, Error: err, Matcher: m}
}

// matcher compiles match conditions; nil if there are none.
func matcher(compiler plugincel.ConditionCompiler, conditions []v1.MatchCondition,
	options plugincel.OptionalVariableDeclarations, failurePolicy *v1.FailurePolicyType,
	kind, sort, name string) matchconditions.Matcher {
	if len(conditions) == 0 {
		return nil
	}
	list := make([]plugincel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		list[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	return matchconditions.NewMatcher(compiler.CompileCondition(list, options, environment.StoredExpressions),
		failurePolicy, kind, sort, name)
}

func variables(list []v1.Variable) []plugincel.NamedExpressionAccessor {
	out := make([]plugincel.NamedExpressionAccessor, len(list))
	for i, v := range list {
		out[i] = &validating.Variable{Name: v.Name, Expression: v.Expression}
	}
	return out
}

// bound replaces an expression by one with bounded quantities.
func bound(expression *string) error {
	out, err := boundQuantities(*expression)
	*expression = out
	return err
}

func boundConditions(list []v1.MatchCondition) (err error) {
	for i := range list {
		err = errors.Join(err, bound(&list[i].Expression))
	}
	return err
}

func boundVariables(list []v1.Variable) (err error) {
	for i := range list {
		err = errors.Join(err, bound(&list[i].Expression))
	}
	return err
}

// conditions compiles the match conditions of a webhook, which were validated. The result reports whether a write
// meets them; its error is why that cannot be said.
func conditions(list []any, _ string) (func(*admission.Attributes) (bool, error), []obj.Cause) {
	var conditions []v1.MatchCondition
	var err error
	for _, c := range list {
		text, marshalErr := json.Marshal(c)
		var condition v1.MatchCondition
		err = errors.Join(err, marshalErr, json.Unmarshal(text, &condition))
		conditions = append(conditions, condition)
	}
	err = errors.Join(err, boundConditions(conditions))
	m := matcher(plugincel.NewConditionCompiler(base()), conditions,
		plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, nil, "webhook", "", "")
	return func(a *admission.Attributes) (bool, error) {
		if err != nil || m == nil {
			return err == nil, err
		}
		ctx := context.Background() // a condition waits for nothing, and what it costs is limited
		attributes, _ := attributesOf(a)
		versioned, err := plugin.NewVersionedAttributes(attributes, attributes.GetKind(), formsOf(ctx, a))
		if err != nil {
			return false, fmt.Errorf("read the object: %w", err)
		}
		result := m.Match(ctx, versioned, nil, access{a})
		return result.Matches, result.Error
	}, nil
}

// k8s.io/apimachinery parses 1E1000000000 as a quantity, and compares it within minutes and gigabytes, which the cost
// limits of CEL do not count. bounded is what an expression passes on to quantity(): quantities whose exponent has at
// most four digits. From any other text find() returns "", which is no quantity: the expression has an error.
const bounded = `'^[+-]?[0-9.]*([eE][+-]?0*[0-9]{1,4}|[A-Za-z]*)$'`

// tokens matches what may have a parenthesis in it, and parentheses: first strings, names in backticks and comments,
// then names with the parenthesis that may follow (the first group is the name), then single parentheses.
var tokens = regexp.MustCompile(`(?s)[bB]?[rR][bB]?(?:""".*?"""|\x27\x27\x27.*?\x27\x27\x27|"[^"]*"|\x27[^\x27]*\x27)` +
	`|[bB]?(?:"""(?:[^\\]|\\.)*?"""|\x27\x27\x27(?:[^\\]|\\.)*?\x27\x27\x27|"(?:[^"\\]|\\.)*"|\x27(?:[^\x27\\]|\\.)*\x27)` +
	"|`[^`]*`" + `|//[^\n]*|([A-Za-z_0-9]+)(?:\s|//[^\n]*\n)*\(?|[()]`)

// boundQuantities returns an expression that is the same, but for quantities that take minutes to compare: those are
// errors. An expression that cannot be parsed is returned as it is; it is refused elsewhere.
func boundQuantities(expression string) (string, error) {
	if !strings.Contains(expression, "quantity") {
		return expression, nil
	}
	env := base().StoredExpressionsEnv()
	if _, issues := env.Parse(expression); issues.Err() != nil {
		return expression, nil
	}
	var out strings.Builder
	var open []bool // for each open parenthesis whether it is that of a call of quantity()
	last := 0
	for _, at := range tokens.FindAllStringSubmatchIndex(expression, -1) {
		token, name := expression[at[0]:at[1]], ""
		if at[2] >= 0 {
			name = expression[at[2]:at[3]]
		}
		switch {
		case token == "(" || name != "" && strings.HasSuffix(token, "("):
			open = append(open, name == "quantity")
			if name == "quantity" {
				out.WriteString(expression[last:at[1]] + "(")
				last = at[1]
			}
		case token == ")" && len(open) > 0:
			if open[len(open)-1] {
				out.WriteString(expression[last:at[0]] + "\n).find(" + bounded + ")") // a comment ends with its line
				last = at[0]
			}
			open = open[:len(open)-1]
		}
	}
	out.WriteString(expression[last:])
	parsed, issues := env.Parse(out.String())
	if issues.Err() != nil {
		return "", fmt.Errorf("bound the quantities in %q: %w", expression, issues.Err())
	}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(parsed.NativeRep()), ast.FunctionMatcher("quantity")) {
		for _, arg := range e.AsCall().Args() {
			if arg.Kind() != ast.CallKind || arg.AsCall().FunctionName() != "find" {
				return "", fmt.Errorf("bound the quantities in %q: a call of quantity() was missed", expression)
			}
		}
	}
	return out.String(), nil
}
