// Package cel gives the embedded API server what a real one evaluates in CEL, with the packages of the real one: the
// rules in the schemas of custom resources (x-kubernetes-validations). It is a module of its own, because these
// packages take more space than all of skiff.
//
// Its functions are called on the goroutines of requests, and keep nothing but compiled rules. What a rule may cost is
// limited as on a real server: an estimate when a definition is written, and a budget for each object.
package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/obj"
)

// New returns what evaluates CEL for apiserver.Options.
func New() *apiserver.CEL {
	return &apiserver.CEL{Definition: definition, Rules: rules, Registration: registration, Conditions: conditions,
		Policies: new(compiled).policies, TypeCheck: typeCheck}
}

// definition validates a definition as the real server does: all of it, so that the texts are the real ones. cur is
// nil for a new one.
func definition(next, cur map[string]any) []obj.Cause {
	if causes := tooMany(next); causes != nil {
		return causes
	}
	crd, err := internal(next)
	if err != nil {
		return []obj.Cause{cause(field.Invalid(field.NewPath("spec"), nil, err.Error()))}
	}
	ctx := context.Background()
	if cur == nil {
		return causes(validation.ValidateCustomResourceDefinition(ctx, crd))
	}
	old, err := internal(cur)
	if err != nil {
		return []obj.Cause{cause(field.Invalid(field.NewPath("spec"), nil, err.Error()))}
	}
	return causes(validation.ValidateCustomResourceDefinitionUpdate(ctx, crd, old))
}

// maxExpressions bounds the expressions of one object: each takes most of a millisecond to compile, and no other
// object can be written meanwhile.
const maxExpressions = 2000

func tooMany(o map[string]any) []obj.Cause {
	if n := expressionsIn(o["spec"]) + expressionsIn(o["webhooks"]); n > maxExpressions {
		return []obj.Cause{cause(field.TooMany(field.NewPath("spec"), n, maxExpressions))}
	}
	return nil
}

func expressionsIn(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += expressionsIn(item)
		}
	case map[string]any:
		for name, member := range v {
			_, isText := member.(string)
			if isText && (name == "rule" || strings.HasSuffix(strings.ToLower(name), "expression")) {
				n++
			}
			n += expressionsIn(member)
		}
	}
	return n
}

// internal converts a definition to the type that is validated.
func internal(o map[string]any) (*apiextensions.CustomResourceDefinition, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the definition: %w", err)
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(text, &v1); err != nil {
		return nil, fmt.Errorf("decode the definition: %w", err)
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(&v1)
	crd := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&v1, crd,
		nil); err != nil {
		return nil, fmt.Errorf("convert the definition: %w", err)
	}
	return crd, nil
}

// rules compiles the rules of a schema that a definition has; nil if there are none. The result validates an object
// that has no other errors; cur is nil for a new one.
func rules(schema map[string]any) func(next, cur map[string]any) []obj.Cause {
	originals := map[string]string{} // by what boundQuantities made of them
	bound, err := boundRules(schema, originals)
	var s *structural.Structural
	if err == nil {
		s, err = parse(bound.(map[string]any))
	}
	if err != nil {
		// Never: definition has accepted the schema. If it happens, objects are refused, and not let through.
		return func(_, _ map[string]any) []obj.Cause {
			return []obj.Cause{cause(field.InternalError(nil, err))}
		}
	}
	v := schemacel.NewValidator(s, true, celconfig.PerCallLimit)
	if v == nil {
		return nil
	}
	return func(next, cur map[string]any) []obj.Cause {
		var old any
		var options []schemacel.Option
		if cur != nil {
			old = cur
			options = append(options, schemacel.WithRatcheting(
				common.NewCorrelatedObject(next, cur, &model.Structural{Structural: s})))
		}
		errs, _ := v.Validate(context.Background(), nil, s, next, old, celconfig.RuntimeCELCostBudget, options...)
		out := causes(errs)
		for i := range out {
			for bound, original := range originals {
				out[i].Message = strings.ReplaceAll(out[i].Message, bound, original)
			}
		}
		return out
	}
}

// boundRules returns a schema whose rules take no quantity that takes minutes to compare (boundQuantities). It adds
// those that were changed to originals.
func boundRules(v any, originals map[string]string) (any, error) {
	var err error
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = boundRules(v[i], originals); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			text, isText := member.(string)
			if !isText || name != "rule" && name != "messageExpression" {
				out[name], err = boundRules(member, originals)
			} else if out[name], err = boundQuantities(strings.TrimSpace(text)); out[name] != strings.TrimSpace(text) {
				originals[fmt.Sprint(out[name])] = strings.TrimSpace(text)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// parse converts a schema to the form that rules are compiled for.
func parse(schema map[string]any) (*structural.Structural, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	var v1 apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(text, &v1); err != nil {
		return nil, fmt.Errorf("decode the schema: %w", err)
	}
	var props apiextensions.JSONSchemaProps
	err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &props, nil)
	if err != nil {
		return nil, fmt.Errorf("convert the schema: %w", err)
	}
	return structural.NewStructural(&props)
}

func causes(errs field.ErrorList) []obj.Cause {
	var out []obj.Cause
	for _, err := range errs {
		out = append(out, cause(err))
	}
	return out
}

func cause(err *field.Error) obj.Cause {
	return obj.Cause{Reason: string(err.Type), Message: err.ErrorBody(), Field: err.Field}
}
