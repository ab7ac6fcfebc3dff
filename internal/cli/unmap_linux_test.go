package cli

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mappedFiles returns how many KiB of files are mapped and present.
func mappedFiles(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no RssFile in\n%s", status)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestThePagesOfTheBinaryLeaveTheAddressSpace(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := mappedFiles(t)
	if err := unmapBinary(); err != nil {
		t.Fatal(err)
	}
	after := mappedFiles(t)
	if after > before*2/3 {
		t.Errorf("%d KiB of %s and its libraries were mapped, %d still are", before, binary, after)
	}
}

func TestOnlyReadOnlyPagesThatAreThoseOfTheFileAreUnmapped(t *testing.T) {
	all, err := readMappings(strings.NewReader(`00400000-00ae8000 r-xp 00000000 fe:00 42        /usr/bin/my skiff
Size:               7072 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
00ae8000-01225000 r--p 006e8000 fe:00 42        /usr/bin/my skiff (deleted)
Anonymous:             4 kB
Swap:                  0 kB
01225000-01230000 r--p 00e25000 fe:00 42        /usr/bin/my skiff
Anonymous:             0 kB
Swap:                  8 kB
01230000-01291000 rw-p 00e30000 fe:00 42        /usr/bin/my skiff
7ffd76a04000-7ffd76a25000 rw-p 00000000 00:00 0 [stack]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []mapping{{from: 0x400000, to: 0xae8000, file: "fe:00 42", readOnly: true},
		{from: 0xae8000, to: 0x1225000, file: "fe:00 42", readOnly: true, own: true},
		{from: 0x1225000, to: 0x1230000, file: "fe:00 42", readOnly: true, own: true},
		{from: 0x1230000, to: 0x1291000, file: "fe:00 42"},
		{from: 0x7ffd76a04000, to: 0x7ffd76a25000, file: "00:00 0"}}
	if !slices.Equal(all, want) {
		t.Errorf("read %+v", all)
	}
}
