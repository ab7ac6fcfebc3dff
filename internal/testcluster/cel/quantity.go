package cel

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/ast"
)

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
