package features

import (
	"strings"
	"testing"
)

func TestAVersionAndItsGatesAreChosenByName(t *testing.T) {
	for _, test := range []struct {
		version, gates string
		want           string // the version, then what is said of WatchList, ImageVolume and EnvFiles
		problem        string
	}{
		{want: "v1.36.3 on on on"},
		{version: "1.33", want: "v1.33.13 off off off"},
		{version: "v1.34.2", want: "v1.34.4 on off off"},
		{version: "1.32", gates: "WatchList=false,ImageVolume=true", want: "v1.32.13 off on off"},
		{gates: "WatchList=false, EnvFiles=false", want: "v1.36.3 off on off"},
		{version: "1.32", gates: "AnyVolumeDataSource=true", want: "v1.32.13 on off off"},
		{version: "1.31", problem: `"1.31" is no version that this server can be; it can be 1.32, 1.33`},
		{version: "2.33", problem: `"2.33" is no version`},
		{version: "latest", problem: `"latest" is no version`},
		{version: "1.32", gates: "EnvFiles=true", problem: "EnvFiles: v1.32 has no such gate"},
		{gates: "AllAlpha=true", problem: "AllAlpha: v1.36 has no such gate (AllAlpha and AllBeta: name the gates)"},
		{gates: "WatchList", problem: `feature gate WatchList: "" is not true or false`},
		{gates: "HPAScaleToZero=true", problem: "HPAScaleToZero: it is false by default, and skiff-dev does not " +
			"have what it would change with true"},
	} {
		s, err := New(test.version, test.gates)
		switch {
		case test.problem != "":
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s with %s: %v, want %s", test.version, test.gates, err, test.problem)
			}
			continue
		case err != nil:
			t.Errorf("%s with %s: %v", test.version, test.gates, err)
			continue
		}
		got := s.Version()
		for _, gate := range []string{"WatchList", "ImageVolume", "EnvFiles"} {
			got += map[bool]string{true: " on", false: " off"}[s.On(gate)]
		}
		if got != test.want {
			t.Errorf("%s with %s: %s, want %s", test.version, test.gates, got, test.want)
		}
	}
}

func TestSetsOfTheSameVersionAndGatesAreEqual(t *testing.T) {
	a, err := New("1.34", "WatchList=false,ImageVolume=true")
	b, err2 := New("1.34.1", "ImageVolume=true,WatchList=f,")
	if err != nil || err2 != nil || a != b {
		t.Errorf("%+v (%v), %+v (%v)", a, err, b, err2)
	}
	if zero, err := New("", ""); err != nil || zero != (Set{}) {
		t.Errorf("%+v (%v)", zero, err)
	}
}
