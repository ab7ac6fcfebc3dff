package e2e

import (
	"encoding/base64"
	"path/filepath"
	"slices"
	"testing"
)

// TestMain searches all that was printed; this is that the search would find something.
func TestSecretsInLogsAreFound(t *testing.T) {
	dir := t.TempDir()
	want := []string{}
	for name, line := range map[string]string{
		"token.log":   "Authorization: Bearer " + admin.Token,
		"basic-1.log": "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+canary+"-password")),
		"basic-2.log": "Basic " + base64.StdEncoding.EncodeToString([]byte("you:"+canary+"-password")),
		"basic-3.out": "Basic " + base64.StdEncoding.EncodeToString([]byte("they:"+canary)),
		"account.out": "token=eyJhbGciOiJSUzI1NiIsImtpZCI6Ij",
	} {
		path := filepath.Join(dir, name)
		writeFile(t, path, "harmless\n"+line+"\nharmless\n")
		want = append(want, path+":2")
	}
	writeFile(t, filepath.Join(dir, "harmless.log"), "token, password, "+admin.Name+"\n")
	writeFile(t, filepath.Join(dir, "admin.kubeconfig"), admin.Token)
	found, err := Leaks(dir)
	slices.Sort(want)
	if slices.Sort(found); err != nil || !slices.Equal(found, want) {
		t.Errorf("found %q, error %v; want %q", found, err, want)
	}
}
