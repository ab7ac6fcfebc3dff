package redis

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// config is spec.config: directives of redis.conf and their values.
type config map[string]string

// directive is what a directive of redis.conf looks like.
var directive = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// configOf reads spec.config. An error names the directive that is wrong.
func configOf(rd *Redis) (config, error) {
	raw, err := decodeField("config", rd.Spec.Config)
	if err != nil {
		return nil, err
	}
	c := config{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		field := "spec.config." + name
		if !directive.MatchString(name) {
			return nil, fmt.Errorf("%s: is not the name of a directive, which has small letters, digits and dashes",
				field)
		}
		switch name {
		case "port":
			return nil, fmt.Errorf("%s: set spec.port instead, which the Service and the probe follow", field)
		case "daemonize":
			return nil, fmt.Errorf("%s: a server in the background would end its container; remove it", field)
		}
		switch v := raw[name].(type) {
		case string:
			c[name] = v
		case int64:
			c[name] = strconv.FormatInt(v, 10)
		default:
			return nil, fmt.Errorf(
				`%s: must be a string or a whole number; YAML takes yes and no for booleans, write "yes"`, field)
		}
	}
	return c, nil
}

// lines returns the directives as arguments of redis-server, in the order of their names. One argument that begins
// with two dashes is one line of redis.conf to it, quotes and all. A value of several lines is a directive that is
// there as often.
func (c config) lines() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		for value := range strings.Lines(c[name] + "\n") {
			switch value = strings.TrimSpace(value); {
			case value != "":
				out = append(out, "--"+name+" "+value)
			case strings.TrimSpace(c[name]) == "":
				out = append(out, "--"+name+` ""`) // save "" switches snapshots off
			}
		}
	}
	return out
}

// password returns what the readiness probe has to say to be let in, false if it needs no help: there is no
// password, or it is not spelled out here. One that a Secret holds is given as $(REDISCLI_AUTH), and the template
// sets that variable.
func (c config) password() (string, bool) {
	v := strings.TrimSpace(c["requirepass"])
	return v, v != "" && !strings.ContainsAny(v, "\"' \t\n$")
}
