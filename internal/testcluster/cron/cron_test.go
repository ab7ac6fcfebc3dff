package cron

import (
	"fmt"
	"testing"
	"time"
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
		if _, err := Parse(schedule); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", schedule, err, want)
		}
	}
}

func TestTheTimesOfAScheduleAreThoseThatItNames(t *testing.T) {
	const layout = "2006-01-02T15:04:05"
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("this system has no time zones:", err)
	}
	for _, c := range []struct{ schedule, after, next string }{
		{"* * * * *", "2026-01-31T23:59:30", "2026-02-01T00:00:00"},
		{"*/20 9-17/4 * * mon,FRI", "2026-01-01T10:00:00", "2026-01-02T09:00:00"}, // the 2nd is a Friday
		{"*/20 9-17/4 * * mon,FRI", "2026-01-02T09:40:00", "2026-01-02T13:00:00"},
		{"0 0 13 * 5", "2026-01-03T00:00:00", "2026-01-09T00:00:00"}, // the 13th, or a Friday
		{"0 0 */10 * 5", "2026-01-03T00:00:00", "2026-01-09T00:00:00"},
		{"@monthly", "2026-01-01T00:00:00", "2026-02-01T00:00:00"},
		{"@every 90s", "2026-01-01T00:00:10", "2026-01-01T00:01:40"},
		{"30 2 * * *", "2026-03-28T12:00:00", "2026-03-30T02:30:00"}, // the 29th has no such time in Berlin
		{"0 0 30 2 *", "2026-01-01T00:00:00", "0001-01-01T00:00:00"},
	} {
		s, err := Parse(c.schedule)
		if err != nil {
			t.Fatal(err)
		}
		after, err := time.ParseInLocation(layout, c.after, berlin)
		if err != nil {
			t.Fatal(err)
		}
		if have := s.Next(after).Format(layout); have != c.next {
			t.Errorf("%s after %s is %s, want %s", c.schedule, c.after, have, c.next)
		}
	}
}

func TestTheLatestOfManyTimesIsFoundQuickly(t *testing.T) {
	since := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	now := time.Date(2026, 1, 2, 3, 4, 30, 0, time.UTC)
	for schedule, want := range map[string]string{
		"* * * * *": "2026-01-02 03:04:00", "0 6-16/4 * * 1-5": "2026-01-01 14:00:00",
		"@every 1h": "2026-01-02 03:00:00", "0 0 30 2 *": "0001-01-01 00:00:00",
	} {
		s, err := Parse(schedule)
		if err != nil {
			t.Fatal(err)
		}
		latest, missed := s.Latest(since, now)
		if latest.Format(time.DateTime) != want || missed > 0 == latest.IsZero() {
			t.Errorf("%s: the last time is %v after %d, want %s", schedule, latest, missed, want)
		}
	}
	if s, _ := Parse("@hourly"); !first(s.Latest(now, now.Add(time.Minute))).IsZero() {
		t.Error("there is an hour within a minute")
	}
}

func first(t time.Time, _ int64) time.Time { return t }

func TestTheLatestTimeIsFoundSoonAfterCenturies(t *testing.T) {
	now := time.Date(2026, 11, 22, 11, 0, 30, 0, time.UTC)
	for _, text := range []string{"* * * * *", "@every 1s", "0 0 29 2 *", "* * 1 1 *"} {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		latest, missed := s.Latest(time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), now)
		if took := time.Since(began); latest.IsZero() || latest.After(now) || missed < 40 ||
			took > 10*time.Second { // to look at each time takes minutes
			t.Errorf("%s: %v, %d missed, after %v", text, latest, missed, took)
		}
	}
}
