package obj

import "testing"

// Rules: FS-35
func TestLabelSelectorsInFullGrammar(t *testing.T) {
	labels := map[string]string{"app": "web", "tier": "front", "gen": "4", "empty": ""}
	for s, want := range map[string]bool{
		"": true, "app": true, "!app": false, "nope": false, "!nope": true, "app=web": true, "app==web": true,
		"app!=web": false, "nope!=x": true,
		"app in (web,db)": true, "app notin (web)": false, "nope notin (web)": true, "app=web,tier=front": true,
		"app=web, tier = back": false,
		"gen>3":                true, "gen<3": false, "app>3": false, "empty=": true, "empty in ()": true,
		"app in (,web)": true, "in in (in)": false, "app,!x,gen>1": true,
	} {
		sel, err := ParseLabels(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
		} else if got := sel.Matches(labels); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

// Rules: FS-35
func TestLabelSelectorErrorsAreTheServers(t *testing.T) {
	for s, want := range map[string]string{
		"a b":     "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
		"a in (b": "unable to parse requirement: found '', expected: ',' or ')'",
		"a=b=c":   "found '=', expected: ',' or 'end of string'",
		"!!a":     "unable to parse requirement: found '!', expected: identifier",
		"a>x": "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the " +
			"value must be an integer",
		"a,":       "found '', expected: identifier after ','",
		"=a":       "found '=', expected: !, identifier, or 'end of string'",
		"a in b":   "unable to parse requirement: found 'b' expected: '('",
		"a in (=)": "unable to parse requirement: found '=', expected: ',', ')' or identifier",
		"a==$": "unable to parse requirement: values[0][a]: Invalid value: \"$\": a valid label must be an " +
			"empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an " +
			"alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is " +
			"'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
	} {
		if _, err := ParseLabels(s); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", s, err, want)
		}
	}
}

// Rules: FS-35
func TestFieldSelectors(t *testing.T) {
	fields := map[string]string{"metadata.name": "web", "status.phase": "Running", "x": "a,b=c"}
	for s, want := range map[string]bool{
		"": true, "metadata.name=web": true, "metadata.name==web": true, "metadata.name!=web": false,
		"status.phase!=Failed,metadata.name=web": true,
		`x=a\,b\=c`:                              true, "metadata.name=": false, "nope=": true,
	} {
		sel, err := ParseFields(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
		} else if got := sel.Matches(func(f string) string { return fields[f] }); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
	for s, want := range map[string]string{
		"a":     "invalid selector: 'a'; can't understand 'a'",
		`a=b\x`: `invalid field selector: invalid escape sequence: \x`,
		"a=b=c": "invalid field selector: unescaped character in value: 61",
	} {
		if _, err := ParseFields(s); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", s, err, want)
		}
	}
}

// FuzzSelectors: no text makes the parsers panic, and what parses can be matched.
func FuzzSelectors(f *testing.F) {
	for _, s := range []string{"a=b", "a in (b,c),!d", "a>1", "x=\\,", "!", "a!b=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if sel, err := ParseLabels(s); err == nil {
			sel.Matches(map[string]string{"a": "b"})
		}
		if sel, err := ParseFields(s); err == nil {
			sel.Matches(func(string) string { return "" })
		}
	})
}
