package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/runtime/nearest"
)

// Instead ends an error about an unknown name: with the nearest name, or with all names.
func Instead(name string, names []string) string {
	if question := nearest.Ask(name, names, "", ""); question != "" {
		return question
	}
	return "choose from " + strings.Join(names, ", ")
}

// wrongChoice is the error for a value of a flag that is none of its values.
func wrongChoice(flag, value string, values []string) error {
	want := values[0]
	if last := len(values) - 1; last > 0 {
		want = strings.Join(values[:last], ", ") + " or " + values[last]
	}
	question := nearest.Ask(value, values, "", "")
	if question != "" {
		question = ": " + question
	}
	return Usagef("%s %.100q: want %s%s", flag, value, want, question)
}

// unknownFlagText finds the flag in pflag's error about one that a command does not have.
var unknownFlagText = regexp.MustCompile(`^unknown flag: --([\w.-]{1,100})`)

// usageFlag finds the flags in the text about the flags of a command.
var usageFlag = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`)

// otherFlag begins the annotations of a command that name, for a flag of other programs, the flag to use here.
const otherFlag = "in place of --"

// NoFlag says what is in the place of a flag that users of similar programs look for.
func NoFlag(cmd *cobra.Command, name, instead string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[otherFlag+name] = instead
}

// unknownFlag adds the most similar flag to an error about an unknown flag.
func unknownFlag(cmd *cobra.Command, err error) error {
	m := unknownFlagText.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	if instead := cmd.Annotations[otherFlag+m[1]]; instead != "" {
		return Usagef("%w: %s", err, instead)
	}
	var names []string
	for _, flag := range usageFlag.FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
		names = append(names, flag[1])
	}
	if question := nearest.Ask(m[1], names, "--", ""); question != "" {
		return Usagef("%w: %s", err, question)
	}
	return err
}
