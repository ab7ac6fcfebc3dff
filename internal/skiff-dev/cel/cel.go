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
	"regexp"
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

	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

// New returns what evaluates CEL for fakeapi.Options.
func New() *fakeapi.CEL { return &fakeapi.CEL{Definition: definition, Rules: rules} }

// definition validates a definition as the real server does: all of it, so that the texts are the real ones. cur is
// nil for a new one.
func definition(next, cur map[string]any) []kube.StatusCause {
	if text, at := findHuge(next, "", hugeLiteral); text != "" {
		return []kube.StatusCause{tooHuge(at, text)}
	}
	crd, err := internal(next)
	if err != nil {
		return []kube.StatusCause{cause(field.Invalid(field.NewPath("spec"), nil, err.Error()))}
	}
	ctx := context.Background()
	if cur == nil {
		return causes(validation.ValidateCustomResourceDefinition(ctx, crd))
	}
	old, err := internal(cur)
	if err != nil {
		return []kube.StatusCause{cause(field.Invalid(field.NewPath("spec"), nil, err.Error()))}
	}
	return causes(validation.ValidateCustomResourceDefinitionUpdate(ctx, crd, old))
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
func rules(schema map[string]any) func(next, cur map[string]any) []kube.StatusCause {
	s, err := parse(schema)
	if err != nil {
		// Never: definition has accepted the schema. If it happens, objects are refused, and not let through.
		return func(_, _ map[string]any) []kube.StatusCause {
			return []kube.StatusCause{cause(field.InternalError(nil, err))}
		}
	}
	v := schemacel.NewValidator(s, true, celconfig.PerCallLimit)
	if v == nil {
		return nil
	}
	quantities := strings.Contains(fmt.Sprint(schema), "uantity(") // quantity() and isQuantity()
	return func(next, cur map[string]any) []kube.StatusCause {
		for _, o := range []map[string]any{next, cur} {
			if !quantities {
				break
			}
			if text, at := findHuge(o, "", hugeText); text != "" {
				return []kube.StatusCause{tooHuge(at, text)}
			}
		}
		var old any
		var options []schemacel.Option
		if cur != nil {
			old = cur
			options = append(options, schemacel.WithRatcheting(
				common.NewCorrelatedObject(next, cur, &model.Structural{Structural: s})))
		}
		errs, _ := v.Validate(context.Background(), nil, s, next, old, celconfig.RuntimeCELCostBudget, options...)
		return causes(errs)
	}
}

// A huge number is one that k8s.io/apimachinery parses as a quantity, and compares within minutes and gigabytes, which
// the cost limits of CEL do not count. A test in this package shows it.
const huge = `[+-]?[0-9.]+[eE][+-]?[0-9]{5,}`

var (
	hugeText    = regexp.MustCompile("^" + huge + "$")
	hugeLiteral = regexp.MustCompile(`["']` + huge + `["']`)
)

// findHuge returns the first huge number in the texts of a value, and its path; of a definition in those of its rules.
func findHuge(v any, path string, number *regexp.Regexp) (text, at string) {
	switch v := v.(type) {
	case string:
		if number.MatchString(v) {
			return v, path
		}
	case []any:
		for i, item := range v {
			if text, at = findHuge(item, fmt.Sprintf("%s[%d]", path, i), number); text != "" {
				return text, at
			}
		}
	case map[string]any:
		for name, member := range v {
			below := strings.TrimPrefix(path+"."+name, ".")
			if number == hugeText && number.MatchString(name) {
				return name, below
			}
			_, isText := member.(string)
			if isText && number == hugeLiteral && name != "rule" && name != "messageExpression" {
				continue
			}
			if text, at = findHuge(member, below, number); text != "" {
				return text, at
			}
		}
	}
	return "", ""
}

func tooHuge(at, text string) kube.StatusCause {
	return cause(field.Invalid(field.NewPath(at), text, "this server evaluates no rule with a number whose exponent "+
		"has more than four digits: that could take minutes"))
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

func causes(errs field.ErrorList) []kube.StatusCause {
	var out []kube.StatusCause
	for _, err := range errs {
		out = append(out, cause(err))
	}
	return out
}

func cause(err *field.Error) kube.StatusCause {
	return kube.StatusCause{Reason: string(err.Type), Message: err.ErrorBody(), Field: err.Field}
}
