package cron

import (
	"fmt"
	"testing"
)

func TestAScheduleIsCheckedInTheWordsOfKubernetes(t *testing.T) {
	for schedule, want := range map[string]string{
		"* * * * *": "<nil>", "*/20 9-17/4 ? jan-MAR mon,FRI": "<nil>", "5/20 * * * *": "<nil>", "@hourly": "<nil>",
		"@every 90s": "<nil>", "0 0 30 2 *": "<nil>",
		"":                 "empty spec string",
		"* * * *":          "expected exactly 5 fields, found 4: [* * * *]",
		"@often":           "unrecognized descriptor: @often",
		"60 * * * *":       "end of range (60) above maximum (59): 60",
		"* * 0 * *":        "beginning of range (0) below minimum (1): 0",
		"5-3 * * * *":      "beginning of range (5) beyond end of range (3): 5-3",
		"*/0 * * * *":      "step of range should be a positive number: */0",
		"1-2-3 * * * *":    "too many hyphens: 1-2-3",
		"1/2/3 * * * *":    "too many slashes: 1/2/3",
		"x * * * *":        `failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax`,
		"*/-1 * * * *":     "negative number (-1) not allowed: -1",
		"@every full moon": `failed to parse duration @every full moon: time: invalid duration "full moon"`,
	} {
		if have := fmt.Sprint(Check(schedule)); have != want {
			t.Errorf("%q: %s, want %s", schedule, have, want)
		}
	}
}
