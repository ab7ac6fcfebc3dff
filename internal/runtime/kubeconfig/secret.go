package kubeconfig

import (
	"fmt"
	"io"
	"os"

	"gopkg.in/yaml.v3"
)

// Secret is a text that must not be printed. Methods alone do not see to that: fmt walks unexported fields past them,
// and a wrong verb prints the value below an interface raw. So the text is behind a pointer, which fmt does not
// follow. The zero value is "not set"; a Secret is a pflag.Value.
type Secret struct{ text *string }

// NewSecret hides text; "" is not set.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

func (s Secret) isSet() bool { return s.text != nil }

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Secret) UnmarshalYAML(n *yaml.Node) error {
	var text string
	if err := n.Decode(&text); err != nil {
		return err
	}
	*s = NewSecret(text)
	return nil
}

// Format implements fmt.Formatter.
func (s Secret) Format(w fmt.State, _ rune) { io.WriteString(w, s.String()) }

// String returns a placeholder if the Secret is set, else "".
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return "[redacted]"
}

// Set implements pflag.Value.
func (s *Secret) Set(text string) error { *s = NewSecret(text); return nil }

// Type implements pflag.Value: the word for the argument in help texts.
func (s Secret) Type() string { return "string" }

// maxFile is the largest file that is read. A kubeconfig of a hundred clusters with their certificates has a few
// hundred KiB, a bundle of all public certificate authorities 300 KiB.
const maxFile = 4 << 20

// ReadFile is os.ReadFile for a path given by a user, of at most 4 MiB: the file may be a pipe, or have no end
// (/dev/zero).
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read %s: it is larger than %d MiB", path, maxFile>>20)
	}
	return data, nil
}
