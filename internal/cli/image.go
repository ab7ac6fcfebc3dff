package cli

import (
	"regexp"
	"strings"
)

// imageName matches what a container runtime takes for the name of an image: host, path, tag and digest.
const imageName = `^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]{0,127})?` +
	`(@sha256:[0-9a-f]{64})?$`

// imageProblem says what is wrong with the name of an image, "" if nothing is.
func imageProblem(image string) string {
	const form = "want [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST]"
	rest, digest, digested := strings.Cut(image, "@")
	path, name := "", rest
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		path, name = rest[:i+1], rest[i+1:]
	}
	name, tag, tagged := strings.Cut(name, ":")
	switch {
	case regexp.MustCompile(imageName).MatchString(image):
		return ""
	case image == "":
		return "must not be empty; " + form
	case strings.ContainsAny(image, " \t\n"):
		return "an image name has no white space; " + form
	case strings.Contains(image, "://"):
		return "an image name has no scheme; " + form
	case digested && !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest):
		return "the digest after @ must be sha256: and 64 hexadecimal digits"
	case tagged && !regexp.MustCompile(`^\w[\w.-]{0,127}$`).MatchString(tag):
		return "the tag after : must be 1 to 128 letters, digits, '_', '.' or '-', and not begin with '.' or '-'"
	case strings.ToLower(path+name) != path+name:
		return "a repository name has only small letters; " + form
	}
	return form
}
