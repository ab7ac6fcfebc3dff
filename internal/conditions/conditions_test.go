package conditions

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

var (
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	later = noon.Add(90 * time.Minute)
)

// Rules: MGR-13
func TestTransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	old := []Condition{{Type: Ready, Status: False, ObservedGeneration: 1, LastTransitionTime: noon, Reason: "RollingOut", Message: "1 of 3"}}
	same := Update(old, []Condition{{Type: Ready, Status: False, ObservedGeneration: 2, Reason: "Invalid", Message: "2 of 3"}}, later)
	if got := same[0]; !got.LastTransitionTime.Equal(noon) || got.ObservedGeneration != 2 || got.Reason != "Invalid" || got.Message != "2 of 3" {
		t.Errorf("same status: got %+v, want everything new but the time", got)
	}
	turned := Update(same, []Condition{{Type: Ready, Status: True, Reason: "Complete"}}, later)
	if !turned[0].LastTransitionTime.Equal(later) {
		t.Errorf("other status: time %s, want %s", turned[0].LastTransitionTime, later)
	}
	if old[0].Message != "1 of 3" {
		t.Error("Update changed its argument")
	}
}

func TestUpdateKeepsOneConditionPerTypeAndThoseOfOthers(t *testing.T) {
	old := []Condition{{Type: "Paused", Status: True, LastTransitionTime: noon}, {Type: Ready, Status: True, LastTransitionTime: noon}}
	got := Update(old, []Condition{{Type: Ready, Status: True}, {Type: Degraded, Status: False}}, later)
	var types []string
	for _, c := range got {
		types = append(types, c.Type)
	}
	if want := []string{Ready, Degraded, "Paused"}; !reflect.DeepEqual(types, want) {
		t.Errorf("types %v, want %v", types, want)
	}
}

// Rules: WRT-33
func TestTimesSurviveTheWireUnchanged(t *testing.T) {
	zone := time.FixedZone("somewhere", 3600)
	in := Update(nil, []Condition{{Type: Ready, Status: True, Reason: "Complete"}}, noon.Add(123456789*time.Nanosecond).In(zone))
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"lastTransitionTime":"2026-11-20T12:00:00Z"`) {
		t.Errorf("got %s, want whole seconds in UTC", text)
	}
	var out []Condition
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(Update(out, in, later))
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(text) {
		t.Errorf("after a round trip and an equal observation: %s, want %s", again, text)
	}
}

func TestLongMessageKeepsItsBeginningAndItsEnd(t *testing.T) {
	message := "cannot apply: " + strings.Repeat("ä", 5000) + "; correct the spec"
	got := Update(nil, []Condition{{Type: Stalled, Status: True, Message: message}}, noon)[0].Message
	if len(got) > maxMessage || !utf8.ValidString(got) || !strings.HasPrefix(got, "cannot apply: ") || !strings.HasSuffix(got, "; correct the spec") {
		t.Errorf("got %d bytes, valid %t: %.40s ... %s", len(got), utf8.ValidString(got), got, got[len(got)-30:])
	}
}

func TestOf(t *testing.T) {
	if Of(true) != True || Of(false) != False {
		t.Error("Of does not follow its argument")
	}
}
