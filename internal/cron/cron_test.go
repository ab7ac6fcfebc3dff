package cron

import (
	"testing"
	"time"
)

func TestAScheduleNamesItsNextTime(t *testing.T) {
	now := time.Date(2026, time.January, 30, 10, 15, 30, 0, time.UTC) // a Friday
	for schedule, want := range map[string]string{
		"* * * * *":            "2026-01-30T10:16:00Z",
		"*/20 * * * *":         "2026-01-30T10:20:00Z",
		"5/20 * * * *":         "2026-01-30T10:25:00Z",
		"0 9-17/4 * * *":       "2026-01-30T13:00:00Z",
		"15 10 * * *":          "2026-01-31T10:15:00Z",
		"0 0 * * MON":          "2026-02-02T00:00:00Z",
		"0 0 1 mar-apr ?":      "2026-03-01T00:00:00Z",
		"0 0 13 * fri":         "2026-02-06T00:00:00Z", // either day will do
		"0 0 31 * *":           "2026-01-31T00:00:00Z",
		"0 0 29 2 *":           "2028-02-29T00:00:00Z",
		"0 0 30 2 *":           "0001-01-01T00:00:00Z", // never
		"@hourly":              "2026-01-30T11:00:00Z",
		"@weekly":              "2026-02-01T00:00:00Z",
		"@every 90s":           "2026-01-30T10:17:00Z",
		"1,2,3 4 * * *":        "2026-01-31T04:01:00Z",
		"59 23 31 12 sun,MON ": "2026-12-06T23:59:00Z"} {
		s, err := Parse(schedule)
		if err != nil {
			t.Errorf("%q: %v", schedule, err)
			continue
		}
		if have := s.Next(now).Format(time.RFC3339); have != want {
			t.Errorf("%q after %s is %s, want %s", schedule, now.Format(time.RFC3339), have, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "1-5/2,7 0 ? jan-mar MON", "@every 1h", "@daily", "5-3 * * * *",
		"*/0 * * * *", "9999999999999999999 * * * *", "1/9223372036854775807 * * * *"} {
		f.Add(s)
	}
	now := time.Date(2026, time.January, 30, 10, 15, 30, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if next := s.Next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q: the next time %s is not after %s", text, next, now)
		}
	})
}
