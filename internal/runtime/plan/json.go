package plan

import (
	"encoding/json"
	"io"

	"skiff/internal/runtime/kube"
)

// Format names the form of the JSON lines.
const Format = "skiff-plan/1"

// jsonLine is a write as a line of JSON.
type jsonLine struct {
	Owner     string  `json:"owner"`
	Op        Op      `json:"op"`
	Resource  string  `json:"resource,omitempty"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name,omitempty"`
	Fields    []Field `json:"fields,omitempty"`
	Pods      int     `json:"pods,omitempty"`
	Note      string  `json:"note,omitempty"`
	Reason    string  `json:"reason,omitempty"` // of Error, one word
	Error     string  `json:"error,omitempty"`
	Next      string  `json:"next,omitempty"`
}

// printable is a writer of JSON for a terminal: an encoder writes a whole value at once.
type printable struct{ io.Writer }

func (p printable) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, kube.PrintableJSON(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// JSON writes a plan as lines of JSON: a line about the two programs, a line for each write, and a summary.
func (out *Plan) JSON(w io.Writer, skiff, server string) error {
	e := json.NewEncoder(printable{w})
	e.SetEscapeHTML(false)
	head := struct {
		Format string `json:"format"`
		Skiff  string `json:"skiff"`
		Server string `json:"server"`
	}{Format, skiff, server}
	if err := e.Encode(head); err != nil {
		return err
	}
	for _, o := range out.Owners {
		for _, l := range o.Lines {
			if err := e.Encode(l.json(o.Name)); err != nil {
				return err
			}
		}
	}
	type summary struct {
		Summary
		Exit int `json:"exit"`
	}
	s := out.Summary()
	return e.Encode(map[string]summary{"summary": {s, s.Exit()}})
}

func (l *Line) json(owner string) jsonLine {
	out := jsonLine{Owner: owner, Op: l.Op, Namespace: l.Key.Namespace, Name: l.Key.Name, Fields: l.Fields,
		Pods: l.Pods, Note: l.Note}
	if p := l.Problem; p != nil {
		out.Reason, out.Error, out.Next = kube.Printable(p.Reason, maxValue), p.Whole(), kube.Text(p.Next)
	}
	if l.Resource.Plural != "" {
		out.Resource = l.Resource.GroupResource()
	}
	if l.Local != "" {
		out.Note = join(out.Note, "compared here, without a dry run: "+l.Local)
	}
	return out
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
