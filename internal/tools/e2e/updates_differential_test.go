package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
)

// unstored are kinds of which nothing is stored here: it would have the servers ask others, or allocate differently.
var unstored = []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService", "ServiceCIDR",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "CustomResourceDefinition", "IPAddress",
	"LimitRange"}

// Each field of each built-in kind is set alone, with all that is below it left out, and created by a dry run on both
// servers: the defaults, the form in which values are stored, and the warnings are those of the real one. Then the
// field is changed alone in a stored object, by a dry run, and changed back: the fields that may change are those of a
// real server. One test does both, because most of the work is to find an object that the real server takes.
func TestGeneratedFieldsAreSetAndChangedAsOnTheRealServer(t *testing.T) {
	g := newGenerated(t)
	g.eachKind(t, func(c *ofKind) {
		stored := make([][2]string, len(c.bases)) // their names, and versions on both servers
		for i, base := range c.bases {
			if !slices.Contains(unstored, c.kind.Kind) {
				stored[i] = c.store(renamed(base, c.storedName(i)))
			}
		}
		made := 0
		c.each(func(f field, i int, object map[string]any, real Answer) {
			own := c.send(c.fake, "POST", c.path+"?dryRun=All", object)
			c.report(f, string(must(json.Marshal(object))(c.T)), compareAnswers(c.T, real, own))
			if stored[i][0] == "" || !f.leaf && len(f.steps) == 0 {
				return
			}
			c.change(f, c.storedName(i), stored[i], object)
			if f.steps[len(f.steps)-1] == "globalDefault" { // of which there is one
				return
			}
			made++
			name := fmt.Sprintf("v%s-%d", c.kind.Version, made)
			if versions := c.store(renamed(object, name)); versions[0] != "" {
				c.change(f, name, versions, c.bases[i])
			}
		})
	})
	g.done(t, "fields and values")
}

// change has both servers change the object of a name to another one, in a dry run.
func (c *ofKind) change(f field, name string, versions [2]string, object map[string]any) {
	var answers [2]Answer
	for j, api := range []*API{c.real, c.fake} {
		next := renamed(object, name)
		if c.kind.NeedsVersion { // others may have changed meanwhile, by a controller of the server
			next["metadata"].(map[string]any)["resourceVersion"] = versions[j]
		}
		answers[j] = c.send(api, http.MethodPut, c.path+"/"+name+"?dryRun=All", next)
	}
	if max(answers[0].Code, answers[1].Code) < http.StatusBadRequest {
		return // what is stored then is the business of other tests
	}
	c.report(f, string(must(json.Marshal(object))(c.T)), compareAnswers(c.T, answers[0], answers[1]))
}

// storedName is the name of a base: two versions of a kind share their objects.
func (c *ofKind) storedName(base int) string {
	return "stored-" + c.kind.Version + "-" + string(rune('a'+base))
}

// renamed is an object with another name.
func renamed(object map[string]any, name string) map[string]any {
	next := maps.Clone(object)
	next["metadata"] = map[string]any{"name": name}
	return next
}

// store creates an object on both servers, and returns its versions there: none if the real one refuses its name.
func (c *ofKind) store(object map[string]any) (versions [2]string) {
	for j, api := range []*API{c.real, c.fake} {
		a := c.send(api, http.MethodPost, c.path, object)
		if j == 0 && a.Code >= http.StatusBadRequest {
			return versions
		}
		if a.Code >= http.StatusBadRequest {
			c.Fatalf("store %v: %v", object, a.Body)
		}
		versions[j] = Object(asObject(a.Body)).Str("metadata", "resourceVersion")
	}
	return versions
}
