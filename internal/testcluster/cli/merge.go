package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/state"
)

// entry is an element of one of the lists of a kubeconfig.
type entry struct {
	list, kind, name string // clusters, cluster, and its name
	value            map[string]any
}

func (e entry) object() map[string]any { return map[string]any{"name": e.name, e.kind: e.value} }

// is reports whether an element of the list is the entry. A user may have added fields, such as a namespace.
func (e entry) is(element any) bool {
	o, _ := element.(map[string]any)
	value, _ := o[e.kind].(map[string]any)
	for k, v := range e.value {
		if !reflect.DeepEqual(value[k], v) {
			return false
		}
	}
	return o["name"] == e.name
}

// mergeContext adds a context for the cluster to ~/.kube/config.
func (b background) mergeContext() (path string, created bool, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", false, fmt.Errorf("--merge-context: %w", err)
	}
	entries, err := b.clientOf()
	if err != nil {
		return "", false, fmt.Errorf("--merge-context: %w", err)
	}
	path = filepath.Join(home, ".kube", "config")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", false, fmt.Errorf("--merge-context: %w", err)
	}
	err = editFile(path, func(text string) (string, error) {
		if created = text == ""; created {
			text = "apiVersion: v1\nkind: Config\n"
		}
		for _, e := range entries {
			if text, err = addEntry(text, e); err != nil {
				return "", err
			}
		}
		return text, nil
	})
	if err != nil {
		return "", false, fmt.Errorf("--merge-context: %s: %w", path, err)
	}
	return path, created, nil
}

// unmergeContext removes what mergeContext has added, and nothing that was changed since.
func (b background) unmergeContext(out io.Writer, how started) error {
	entries, err := b.clientOf()
	if err != nil {
		return err
	}
	if _, err := os.Stat(how.Kubeconfig); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	current, empty := "", false
	err = editFile(how.Kubeconfig, func(text string) (string, error) {
		for _, e := range entries {
			if text, err = removeEntry(text, e); err != nil {
				return "", err
			}
		}
		doc, err := decodeMap(text)
		current, _ = doc["current-context"].(string)
		empty = err == nil && isEmpty(doc)
		return text, err
	})
	if err != nil {
		return fmt.Errorf("remove the context %s from %s: %w", b.context(), how.Kubeconfig, err)
	}
	if how.Created && empty {
		return os.Remove(how.Kubeconfig)
	}
	if current == b.context() {
		fmt.Fprintf(out, "%s was the current context of %s: choose another one with kubectl config use-context\n",
			current, how.Kubeconfig)
	}
	return nil
}

// isEmpty reports whether a kubeconfig says nothing.
func isEmpty(doc map[string]any) bool {
	for name, value := range doc {
		list, isList := value.([]any)
		settings, isMap := value.(map[string]any)
		switch {
		case name == "apiVersion", name == "kind", value == nil, value == "":
		case isList && len(list) == 0, isMap && len(settings) == 0:
		default:
			return false
		}
	}
	return true
}

// editFile changes a file while kubectl, which makes the same lock file, does not. A missing file is read as an empty
// one. The permissions of the file stay, and a link to it.
func editFile(path string, edit func(text string) (string, error)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL, 0)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("another program changes it: try again, or remove %s.lock if none does", path)
	}
	if err != nil {
		return err
	}
	defer os.Remove(path + ".lock")
	defer lock.Close()
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	before, err := kubeconfig.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	after, err := edit(string(before))
	if err != nil || after == string(before) {
		return err
	}
	return state.Replace(path, func(f *os.File) error {
		_, err := f.WriteString(after)
		return errors.Join(err, f.Chmod(mode))
	})
}

// decodeMap decodes a kubeconfig.
func decodeMap(text string) (doc map[string]any, err error) {
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, err
	}
	return doc, nil
}

// addEntry adds an entry to the text of a kubeconfig, before the others of its list, and changes no other line. A text
// where that is not possible is encoded anew.
func addEntry(text string, e entry) (string, error) {
	doc, err := decodeMap(text)
	if err != nil {
		return "", err
	}
	list, ok := doc[e.list].([]any)
	if !ok && doc[e.list] != nil {
		return "", fmt.Errorf("%s: want a list", e.list)
	}
	for _, element := range list {
		if o, _ := element.(map[string]any); o["name"] == e.name {
			if e.is(element) {
				return text, nil
			}
			return "", fmt.Errorf("%s: there is another %s: remove it with kubectl config delete-%s %s", e.list,
				e.name, e.kind, e.name)
		}
	}
	want := append([]any{e.object()}, list...)
	object, err := json.Marshal(e.object())
	if err != nil {
		return "", err
	}
	lines, key, value := parts(text, e.list)
	line := "- " + string(object) + "\n"
	switch {
	case key == nil:
		if lines[len(lines)-1] != "" {
			lines = append(lines, "\n")
		}
		lines = append(lines, e.list+":\n"+line)
	case len(value.Content) > 0 && value.Style&yaml.FlowStyle == 0:
		at := value.Content[0].Line - 1
		indent, _, _ := strings.Cut(lines[at], "-")
		lines[at] = indent + line + lines[at]
	default:
		lines[key.Line-1] = e.list + ":\n" + line
	}
	return checked(text, strings.Join(lines, ""), e.list, want)
}

// removeEntry removes an entry from the text of a kubeconfig, if it is there.
func removeEntry(text string, e entry) (string, error) {
	doc, err := decodeMap(text)
	if err != nil {
		return "", err
	}
	list, _ := doc[e.list].([]any)
	for i, element := range list {
		if !e.is(element) {
			continue
		}
		want := append(append([]any{}, list[:i]...), list[i+1:]...)
		lines, key, value := parts(text, e.list)
		if value == nil || i >= len(value.Content) { // an alias, or a merged object: not where its elements are
			return checked(text, "", e.list, want)
		}
		from, to := value.Content[i].Line-1, endOf(text, lines, value, i)
		lines = append(append([]string{}, lines[:from]...), lines[to:]...)
		if len(want) == 0 && key.Line-1 < from {
			lines[key.Line-1] = e.list + ": []\n"
		}
		return checked(text, strings.Join(lines, ""), e.list, want)
	}
	return text, nil
}

// parts returns the lines of a text, and a member of the object that it is, nil if it has none of that name.
func parts(text, name string) (lines []string, key, value *yaml.Node) {
	lines = strings.SplitAfter(text, "\n")
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) == 0 {
		return lines, nil, nil
	}
	members := doc.Content[0].Content
	for i := 0; i+1 < len(members); i += 2 {
		if members[i].Value == name {
			key, value = members[i], members[i+1]
		}
	}
	return lines, key, value
}

// endOf returns the line after an element of a list: where the next one begins, or the next member of the object.
// Comments and empty lines before that stay.
func endOf(text string, lines []string, list *yaml.Node, i int) int {
	from, to := list.Content[i].Line-1, len(lines)
	if i+1 < len(list.Content) {
		to = list.Content[i+1].Line - 1
	} else {
		var doc yaml.Node
		if yaml.Unmarshal([]byte(text), &doc) == nil {
			for n, member := range doc.Content[0].Content {
				if at := member.Line - 1; n%2 == 0 && at > from && at < to {
					to = at
				}
			}
		}
	}
	for to > from+1 {
		last := strings.TrimSpace(lines[to-1])
		if last != "" && !strings.HasPrefix(last, "#") {
			break
		}
		to--
	}
	return to
}

// checked returns the text after an edit of its lines if it has the wanted list, and else the old text encoded anew
// with that list.
func checked(before, after, list string, want []any) (string, error) {
	doc, err := decodeMap(before)
	if err != nil {
		return "", err
	}
	if doc == nil {
		doc = map[string]any{}
	}
	doc[list] = want
	if got, err := decodeMap(after); err == nil && reflect.DeepEqual(got, doc) {
		return after, nil
	}
	text, err := yaml.Marshal(doc)
	return string(text), err
}

// clientOf returns what the kubeconfig of the cluster has for a context of another file.
func (b background) clientOf() (entries [3]entry, err error) {
	var file struct {
		Clusters []struct {
			Cluster map[string]any `yaml:"cluster"`
		} `yaml:"clusters"`
		Users []struct {
			User map[string]any `yaml:"user"`
		} `yaml:"users"`
	}
	path := b.file(kubeconfigFile)
	text, err := kubeconfig.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err == nil && (len(file.Clusters) != 1 || len(file.Users) != 1) {
		err = errors.New("it is not as skiff-dev writes it")
	}
	if err != nil {
		return entries, fmt.Errorf("read %s: %w", path, err)
	}
	name := b.context()
	return [3]entry{{"clusters", "cluster", name, file.Clusters[0].Cluster},
		{"users", "user", name, file.Users[0].User},
		{"contexts", "context", name, map[string]any{"cluster": name, "user": name}}}, nil
}
