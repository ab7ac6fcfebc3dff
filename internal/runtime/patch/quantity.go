package patch

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Quantity is a Kubernetes resource quantity as an exact number: "500m" is 1/2, "1Gi" is 2^30. The kind of unit is
// remembered, and nothing else of the original spelling.
type Quantity struct {
	rat  big.Rat
	form form
}

// form is the kind of unit in a written quantity.
type form int

const (
	decimalSI       form = iota // 500m, 3, 2k
	binarySI                    // 64Mi
	decimalExponent             // 2e3
)

// maxExponent bounds "1e999999999": no resource is counted beyond exa, and an unbounded power of ten would let one
// short string take all memory.
const maxExponent = 100

// maxQuantityLength bounds the digits for the same reason. The API server's own numbers have at most 19.
const maxQuantityLength = 200

// suffixes gives the factor of each unit as base^power, in the spelling of k8s.io/apimachinery/pkg/api/resource.
var suffixes = map[string]struct{ base, power int64 }{
	"": {10, 0}, "n": {10, -9}, "u": {10, -6}, "m": {10, -3},
	"k": {10, 3}, "M": {10, 6}, "G": {10, 9}, "T": {10, 12}, "P": {10, 15}, "E": {10, 18},
	"Ki": {2, 10}, "Mi": {2, 20}, "Gi": {2, 30}, "Ti": {2, 40}, "Pi": {2, 50}, "Ei": {2, 60},
}

var errQuantity = errors.New("not a quantity: want a number with an optional unit, such as 500m, 1.5, 2e3 or 1Gi")

// Times returns the product with n, rounded up, or the largest int64 if the product is larger.
func (q Quantity) Times(n int64) int64 {
	product := new(big.Rat).Mul(&q.rat, big.NewRat(n, 1))
	whole, rest := new(big.Int).DivMod(product.Num(), product.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return math.MaxInt64
	}
	return whole.Int64()
}

// Add returns the sum, with the unit of q unless q is zero.
func (q Quantity) Add(other Quantity) Quantity {
	sum := Quantity{form: q.form}
	if q.rat.Sign() == 0 {
		sum.form = other.form
	}
	sum.rat.Add(&q.rat, &other.rat)
	return sum
}

// Sub returns the difference, with the unit of q.
func (q Quantity) Sub(other Quantity) Quantity {
	rest := Quantity{form: q.form}
	rest.rat.Sub(&q.rat, &other.rat)
	return rest
}

// ParseQuantity reads a quantity. Fractions of a billionth are rounded away from zero, as in the API server.
func ParseQuantity(s string) (Quantity, error) {
	var q Quantity
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || len(s) > maxQuantityLength {
		return q, fmt.Errorf("parse quantity %.40q: %w", s, errQuantity)
	}
	end := strings.IndexFunc(digits, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(digits)
	}
	mantissa, unit := digits[:end], digits[end:]
	base, power, ok := factor(unit)
	switch {
	case base == 2:
		q.form = binarySI
	case suffixes[unit].base == 0:
		q.form = decimalExponent
	}
	if !ok || strings.Count(mantissa, ".") > 1 || strings.Trim(mantissa, ".") == "" {
		return q, fmt.Errorf("parse quantity %.40q: %w", s, errQuantity)
	}
	if _, ok := q.rat.SetString("0" + strings.TrimSuffix(mantissa, ".")); !ok {
		return q, fmt.Errorf("parse quantity %.40q: %w", s, errQuantity)
	}
	scale(&q.rat, base, power)
	roundUpToNano(&q.rat)
	if s[0] == '-' {
		q.rat.Neg(&q.rat)
	}
	// The written quantity has to be readable again, and may be longer than s: units add up to 30 digits.
	if len(s) > maxQuantityLength/2 && len(q.String()) > maxQuantityLength {
		return Quantity{}, fmt.Errorf("parse quantity %.40q: %w", s, errQuantity)
	}
	return q, nil
}

// factor reads the unit or exponent behind the digits.
func factor(unit string) (base, power int64, ok bool) {
	if f, ok := suffixes[unit]; ok {
		return f.base, f.power, true
	}
	if unit == "" || (unit[0] != 'e' && unit[0] != 'E') {
		return 0, 0, false
	}
	n, err := strconv.ParseInt(unit[1:], 10, 32)
	return 10, n, err == nil && n >= -maxExponent && n <= maxExponent
}

func scale(r *big.Rat, base, power int64) {
	f := new(big.Int).Exp(big.NewInt(base), big.NewInt(max(power, -power)), nil)
	if power < 0 {
		r.Quo(r, new(big.Rat).SetInt(f))
	} else {
		r.Mul(r, new(big.Rat).SetInt(f))
	}
}

// roundUpToNano expects r >= 0.
func roundUpToNano(r *big.Rat) {
	const nano = 1e9
	n := new(big.Rat).Mul(r, big.NewRat(nano, 1))
	if n.IsInt() {
		return
	}
	up := new(big.Int).Quo(n.Num(), n.Denom())
	r.SetFrac(up.Add(up, big.NewInt(1)), big.NewInt(nano))
}

// String writes the quantity in the API server's canonical form: without a fraction, with the largest possible unit of
// its kind. "0.5" is "500m", "1000" is "1k", "1.5Gi" is "1536Mi". A binary quantity below 1024, or not a whole number,
// is written in decimal (CanonicalizeBytes in k8s.io/apimachinery/pkg/api/resource).
func (q Quantity) String() string {
	form, num := q.form, q.rat.Num()
	if form == binarySI && (!q.rat.IsInt() || num.CmpAbs(big.NewInt(1024)) < 0) {
		form = decimalSI
	}
	if num.Sign() == 0 {
		return "0"
	}
	if form == binarySI {
		number, times := divided(num, 1024, len(binaryUnits)-1)
		return number.String() + binaryUnits[times]
	}
	nano := new(big.Rat).Mul(&q.rat, big.NewRat(1e9, 1)) // a whole number: there is nothing below a billionth
	if form == decimalExponent {
		number, times := divided(nano.Num(), 1000, (maxExponent+9)/3) // only exponents that ParseQuantity accepts
		if exponent := 3*times - 9; exponent != 0 {
			return number.String() + "e" + strconv.Itoa(exponent)
		}
		return number.String()
	}
	number, times := divided(nano.Num(), 1000, len(decimalUnits)-1)
	return number.String() + decimalUnits[times]
}

// The units of each kind, ascending by factor: 1000 from a billionth on, and 1024 from 1 on.
var (
	decimalUnits = []string{"n", "u", "m", "", "k", "M", "G", "T", "P", "E"}
	binaryUnits  = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
)

// divided divides n by the factor as often as nothing is left over, but not more often than limit.
func divided(n *big.Int, factor int64, limit int) (rest *big.Int, times int) {
	rest = new(big.Int).Set(n)
	for quotient, left := new(big.Int), new(big.Int); times < limit; times++ {
		if quotient.QuoRem(rest, big.NewInt(factor), left); left.Sign() != 0 {
			break
		}
		rest.Set(quotient)
	}
	return rest, times
}

// CanonicalQuantity returns a quantity, or a number read from YAML, in the form stored by the API server. ok is false
// for any other value.
func CanonicalQuantity(v any) (text string, ok bool) {
	q, ok := quantityOf(v)
	if !ok {
		return "", false
	}
	return q.String(), true
}

// storedAlike says whether the API server stores two quantities as the same text.
func storedAlike(a, b any) bool {
	text, ok := CanonicalQuantity(a)
	other, too := CanonicalQuantity(b)
	return ok && too && text == other
}

// Cmp compares by value: -1, 0 or 1 as q is less than, equal to or greater than other.
func (q Quantity) Cmp(other Quantity) int { return q.rat.Cmp(&other.rat) }

// equalQuantity compares two JSON values as quantities. A number counts as well: YAML makes a number of `cpu: 1`.
func equalQuantity(a, b any) bool {
	if equalScalar(a, b) {
		return true
	}
	x, ok := quantityOf(a)
	if !ok {
		return false
	}
	y, ok := quantityOf(b)
	return ok && x.Cmp(y) == 0
}

func quantityOf(v any) (Quantity, bool) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64) // without an exponent, which would be another form
	default:
		return Quantity{}, false
	}
	q, err := ParseQuantity(text)
	return q, err == nil
}
