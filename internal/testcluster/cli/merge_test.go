package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var aContext = []entry{
	{"clusters", "cluster", "skiff-dev-lab", map[string]any{"server": "https://127.0.0.1:1"}},
	{"users", "user", "skiff-dev-lab", map[string]any{"token": "x"}},
	{"contexts", "context", "skiff-dev-lab", map[string]any{"cluster": "skiff-dev-lab", "user": "skiff-dev-lab"}},
}

// edited adds the entries of a context to a kubeconfig, and removes them.
func edited(t *testing.T, text string, between func(string) string) (with, without string) {
	t.Helper()
	var err error
	with = text
	for _, e := range aContext {
		if with, err = addEntry(with, e); err != nil {
			t.Fatal(err)
		}
	}
	without = between(with)
	for _, e := range aContext {
		if without, err = removeEntry(without, e); err != nil {
			t.Fatal(err)
		}
	}
	return with, without
}

func same(text string) string { return text }

func TestAContextIsAddedAndRemovedWithoutAChangeOfOtherLines(t *testing.T) {
	for name, text := range map[string]string{
		"comments": "# mine\nclusters:\n# the office\n- cluster: {server: a} # here\n  name: office\n\n# people\n" +
			"users:\n  - name: me\n    user:\n      token: |\n        - x\n\ncontexts:\n- {name: office}\n" +
			"current-context: office\n",
		"empty lists":    "clusters: []\ncontexts: []\nusers: []\nkind: Config\n",
		"no end of line": "clusters: [] \ncontexts: []\nusers:\n- name: a",
	} {
		with, without := edited(t, text, same)
		if want := strings.ReplaceAll(text, "[] \n", "[]\n"); without != want {
			t.Errorf("%s: before\n%s\nafter\n%s", name, text, without)
		}
		before, after := strings.Count(text, "\n"), strings.Count(with, "\n")
		if after-before < 3 || after-before > 4 || strings.Count(with, "skiff-dev-lab") != 5 {
			t.Errorf("%s: with the context\n%s", name, with)
		}
	}
}

// Where lines cannot be added or removed, the file is encoded anew, and says the same.
func TestAContextIsAddedToAFileOfAnyForm(t *testing.T) {
	for _, text := range []string{`{"clusters":[{"name":"a"}],"users":null}`, "clusters: [\n  {name: a}]\nusers:\n",
		"clusters:\n-\n  name: a\n"} {
		with, without := edited(t, text, same)
		doc, err := decodeMap(with)
		if err != nil || len(doc["clusters"].([]any)) != 2 {
			t.Errorf("%s: %s, %v", text, with, err)
		}
		if doc, err = decodeMap(without); err != nil || len(doc["clusters"].([]any)) != 1 {
			t.Errorf("%s: %s, %v", text, without, err)
		}
	}
}

// kubectl encodes the file anew, and a user sets a namespace.
func TestAContextIsRemovedAfterOthersHaveChangedTheFile(t *testing.T) {
	_, without := edited(t, "", func(string) string {
		return `apiVersion: v1
clusters:
- cluster:
    server: https://127.0.0.1:1
  name: skiff-dev-lab
contexts:
- context:
    cluster: skiff-dev-lab
    namespace: shop
    user: skiff-dev-lab
  name: skiff-dev-lab
- context: {cluster: a}
  name: z
users:
- name: skiff-dev-lab
  user:
    token: another
`
	})
	const want = `apiVersion: v1
clusters: []
contexts:
- context: {cluster: a}
  name: z
users:
- name: skiff-dev-lab
  user:
    token: another
`
	if without != want {
		t.Errorf("%s\nwant\n%s", without, want)
	}
}

func TestAContextOfAnotherIsNotReplaced(t *testing.T) {
	const text = "clusters: [{name: skiff-dev-lab, cluster: {server: a}}]\n"
	if got, err := addEntry(text, aContext[0]); err == nil {
		t.Error(got)
	}
	for _, bad := range []string{"a: [", "clusters: 3\n", "- a\n"} {
		if got, err := addEntry(bad, aContext[0]); err == nil {
			t.Errorf("%q becomes %q", bad, got)
		}
	}
}

func TestAnEditKeepsPermissionsAndLinksAndHeedsTheLockOfKubectl(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "config"), filepath.Join(dir, "link")
	write := func(path string) error {
		return editFile(path, func(text string) (string, error) { return text + "a\n", nil })
	}
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := write(link); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if text := content(t, path); err != nil || info.Mode().Perm() != 0o640 || text != "a\n" {
		t.Errorf("%v %v %q", info.Mode(), err, text)
	}
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(path); err == nil || content(t, path) != "a\n" {
		t.Errorf("a locked file was written: %v", err)
	}
}

func TestAContextIsRemovedFromAListThatIsWrittenElsewhere(t *testing.T) {
	const list = `[{name: skiff-dev-lab, cluster: {server: "https://127.0.0.1:1"}}, {name: office}]`
	for name, text := range map[string]string{
		"alias": "extensions: &all " + list + "\nclusters: *all\n",
		"merge": "base: &base {clusters: " + list + "}\n<<: *base\n",
		"flow":  "{clusters: " + list + "}\n",
	} {
		without, err := removeEntry(text, aContext[0])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		doc, err := decodeMap(without)
		if err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, without)
		}
		left, _ := doc["clusters"].([]any)
		if len(left) != 1 || left[0].(map[string]any)["name"] != "office" {
			t.Errorf("%s: clusters are %v", name, left)
		}
	}
}
