package policy

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// exactDoubles is from where on a double stands for several integers.
const exactDoubles = 1 << 53

var (
	errTooLarge = errors.New("an integer of more than 64 bits cannot be compared exactly")
	errTooFine  = errors.New("a number of so many digits cannot be compared exactly")
)

// number is an int64 or a float64 that stands for the text and for nothing
// beside it: the float64's shortest decimal form must be the text's number.
func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if !strings.ContainsAny(text, ".eE") {
		return nil, errTooLarge
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || decimal(text) != decimal(strconv.FormatFloat(f, 'e', -1, 64)) {
		return nil, errTooFine
	}
	if math.Abs(f) >= exactDoubles && math.Abs(f) < math.MaxInt64 {
		return int64(f), nil // whole, and as a float64 it would equal its neighbours
	}
	return f, nil
}

// digits is a decimal number in one way of writing it: sign, digits without
// zeros at either end, and the power of ten of the first digit.
type digits struct {
	negative bool
	text     string
	power    int
}

func decimal(text string) digits {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	power, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	if exponent != "" && err != nil {
		return digits{text: text} // an exponent that large equals nothing
	}
	d := digits{}
	mantissa, d.negative = strings.TrimPrefix(mantissa, "-"), strings.HasPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	significant := strings.TrimLeft(all, "0")
	d.power = power + len(whole) - (len(all) - len(significant))
	if d.text = strings.TrimRight(significant, "0"); d.text == "" {
		return digits{}
	}
	return d
}
