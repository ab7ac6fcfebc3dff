package cel

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
)

// definitionOf returns a definition whose spec has a string s, a list l and rules.
func definitionOf(rules ...map[string]any) map[string]any {
	list := make([]any, len(rules))
	for i, r := range rules {
		list[i] = r
	}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	spec := object(map[string]any{"s": map[string]any{"type": "string", "maxLength": int64(100)}, "l": map[string]any{
		"type": "array", "maxItems": int64(100), "items": map[string]any{"type": "string", "maxLength": int64(100)}}})
	spec["x-kubernetes-validations"] = list
	return map[string]any{"metadata": map[string]any{"name": "rs.x.test"}, "spec": map[string]any{"group": "x.test",
		"scope": "Namespaced",
		"names": map[string]any{"plural": "rs", "kind": "R", "singular": "r", "listKind": "RList"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": object(map[string]any{"spec": spec})}}}},
		"status": map[string]any{"storedVersions": []any{"v1"}}}
}

func schemaOf(definition map[string]any) map[string]any {
	v := definition["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	return v["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
}

func texts(causes []obj.Cause) string {
	var out []string
	for _, c := range causes {
		out = append(out, c.Reason+" "+c.Field+": "+c.Message)
	}
	return strings.Join(out, "; ")
}

func TestARuleDecidesAboutObjectsAndTheirChanges(t *testing.T) {
	d := definitionOf(map[string]any{"rule": "self.s != 'bad'", "message": "not bad"},
		map[string]any{"rule": "self.s == oldSelf.s || self.s == 'free'", "messageExpression": "'not ' + self.s",
			"reason": "FieldValueForbidden", "fieldPath": ".s"})
	if c := definition(d, nil); c != nil {
		t.Fatal(texts(c))
	}
	check := rules(schemaOf(d))
	with := func(s string) map[string]any { return map[string]any{"spec": map[string]any{"s": s}} }
	for _, c := range []struct {
		next, cur map[string]any
		want      string
	}{
		{with("a"), nil, ""},
		{with("bad"), nil, "FieldValueInvalid spec: Invalid value: not bad"},
		{with("a"), with("a"), ""},
		{with("free"), with("a"), ""},
		{with("b"), with("a"), "FieldValueForbidden spec.s: Forbidden: not b"},
		{with("bad"), with("bad"), ""}, // what does not change is let through
	} {
		if got := texts(check(c.next, c.cur)); got != c.want {
			t.Errorf("%v after %v: %q, want %q", c.next, c.cur, got, c.want)
		}
	}
	if rules(schemaOf(definitionOf())) != nil {
		t.Error("a schema without rules is evaluated")
	}
}

func TestARuleThatCostsTooMuchIsRefused(t *testing.T) {
	d := definitionOf(map[string]any{"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b != c)))"})
	if got := texts(definition(d, nil)); !strings.Contains(got, "estimated rule cost exceeds budget") {
		t.Error(got)
	}
}

// Compiling 10,000 expressions takes seconds, and no other object could be written meanwhile.
func TestAnObjectWithTooManyExpressionsIsRefused(t *testing.T) {
	many := make([]map[string]any, 10_000)
	for i := range many {
		many[i] = map[string]any{"rule": "self.s != ''"}
	}
	const want = "Too many: 10000: must have at most 2000 items"
	if got := texts(definition(definitionOf(many...), nil)); !strings.Contains(got, want) {
		t.Error(got)
	}
	policy, _ := policyOf("true", "", "", "")
	list := make([]any, 10_000)
	for i := range list {
		list[i] = map[string]any{"expression": "true"}
	}
	policy["spec"].(map[string]any)["validations"] = list
	_, validate := registration("ValidatingAdmissionPolicy")
	if got := texts(validate(policy, nil)); !strings.Contains(got, want) {
		t.Error(got)
	}
}

// Comparing 1E1000000000 with another quantity takes minutes, and no cost limit counts that (found by FuzzRule).
func TestNumbersThatTakeMinutesAreNotEvaluated(t *testing.T) {
	const noQuantity = "quantities must match the regular expression"
	for rule, objects := range map[string]map[string]string{
		"quantity(self.s).isGreaterThan(quantity('1'))": {"2": "", "1E400": "", "5Gi": "", "1e00003": "",
			"x": noQuantity, "1E1000000000": noQuantity, "1e-123456": noQuantity},
		"quantity /*": nil, // no rule at all
		"quantity // of (\n ( self.s + '0' // all of )\n ).asInteger() > 1": {"1E1": "", "1E1000000000": noQuantity},
		`quantity("1E"+self.s).add(quantity(r'1\'.size() == 2 && b"\"(" == b'' ? '1' : "2")).asInteger() > 1`: {"1": "",
			"1000000000": noQuantity},
		"[self.s].all(quantity, quantity(quantity).isLessThan(.quantity('1e1000000000')))": {"1": noQuantity},
	} {
		d := definitionOf(map[string]any{"rule": rule, "message": "m"})
		if c := definition(d, nil); c != nil {
			if objects != nil {
				t.Error(texts(c))
			}
			continue
		}
		check := rules(schemaOf(d))
		for s, want := range objects {
			got := texts(check(map[string]any{"spec": map[string]any{"s": s}}, nil))
			if (got == "") != (want == "") || !strings.Contains(got, want) || strings.Contains(got, "find(") {
				t.Errorf("%s of %s: %q", rule, s, got)
			}
		}
	}
}

// A message shows the rule as it was written.
func TestABoundedRuleIsShownAsItWasWritten(t *testing.T) {
	check := rules(schemaOf(definitionOf(map[string]any{"rule": "quantity(self.s).isLessThan(quantity('2'))"})))
	got := texts(check(map[string]any{"spec": map[string]any{"s": "3"}}, nil))
	if want := "failed rule: quantity(self.s).isLessThan(quantity('2'))"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// slow is far longer than the cost limits allow a rule to run.
const slow = 10 * time.Second

// No rule and no object makes the server panic or work for long.
func FuzzRule(f *testing.F) {
	f.Add("self.s == 'a'", "self.s + 'b'", `{"s":"a","l":["x"]}`, `{"s":"b"}`)
	f.Add("self.l.all(x, x.matches('(a+)+$'))", "", `{"l":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"]}`, `null`)
	f.Add("oldSelf.hasValue() && self == oldSelf.value()", "string(self.s.size() / 0)", `{}`, `{"l":[]}`)
	f.Add("quantity(self.s).isGreaterThan(quantity('1e1000000000'))", "", `{"s":"1E999"}`, `{}`)
	f.Add(`quantity("1E"+"1000000000").isLessThan(quantity(self.s))`, "", `{"s":"1"}`, `{}`)
	f.Fuzz(func(t *testing.T, rule, message, next, cur string) {
		start := time.Now()
		d := definitionOf(map[string]any{"rule": rule, "messageExpression": message},
			map[string]any{"rule": rule, "optionalOldSelf": true})
		if len(definition(d, nil)) > 0 {
			d = definitionOf(map[string]any{"rule": rule})
			if len(definition(d, nil)) > 0 {
				return
			}
		}
		var objects [2]map[string]any
		for i, text := range []string{next, cur} {
			var spec map[string]any
			if json.Unmarshal([]byte(text), &spec) == nil && spec != nil {
				objects[i] = map[string]any{"spec": spec}
			}
		}
		if check := rules(schemaOf(d)); check != nil && objects[0] != nil {
			check(objects[0], objects[1])
		}
		if took := time.Since(start); took > slow {
			t.Errorf("took %s", took)
		}
	})
}
