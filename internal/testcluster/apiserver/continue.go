package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/store"
)

const tokenExpired = "The provided continue parameter is too old to display a consistent list result. You can start " +
	"a new list without the continue parameter, or use the continue token in this response to retrieve the " +
	"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
	"were created, modified, or deleted between the time the first chunk was returned and now may show up " +
	"in the list."

func (s *Server) expiredToken(start string) error {
	return &httpd.ExpiredPage{Status: httpd.Expired(tokenExpired), Next: seal(newestState, start)}
}

// newestState is the revision of the token of an expired list: it continues with what there is now.
const newestState = -1

// tokenVersion is the one version of continue tokens.
const tokenVersion = "meta.k8s.io/v1"

// continueToken is what a continue token says, in the form of a real server. It does not name the list: a client may
// go on with another selector.
type continueToken struct {
	Version  string    `json:"v"`
	Revision int64     `json:"rv"`
	Start    string    `json:"start"`  // of the names that follow, see listOptions.place
	Issued   time.Time `json:"issued"` // what a real server does not say
}

func seal(revision int64, start string) string {
	body, err := json.Marshal(continueToken{tokenVersion, revision, start, time.Now()})
	if err != nil {
		panic(err) // never: such a struct has a form in JSON
	}
	return base64.RawURLEncoding.EncodeToString(body)
}

// place is where a list has an object: its name, with the namespace in a list of all.
func (o *listOptions) place(k store.Key) string {
	if o.namespace != "" || k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

func (s *Server) openToken(o *listOptions) (t continueToken, err error) {
	if o.revision > 0 {
		return t, httpd.BadRequest("specifying resource version is not allowed when using continue")
	}
	body, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(o.token, "="))
	if err == nil {
		err = json.Unmarshal(body, &t)
	}
	switch {
	case err != nil:
	case t.Version != tokenVersion:
		err = fmt.Errorf("server does not recognize this encoded version %s", patch.Short(t.Version))
	case t.Revision == 0:
		err = errors.New("incorrect encoded start resourceVersion (version " + tokenVersion + ")")
	case t.Start == "":
		err = errors.New("encoded start key empty (version " + tokenVersion + ")")
	case path.Clean("/"+t.Start) != "/"+strings.TrimPrefix(t.Start, "/"):
		err = errors.New(t.Start)
	}
	if err != nil {
		return t, httpd.BadRequest("invalid continue token: continue key is not valid: %v", err)
	}
	t.Start = strings.TrimPrefix(t.Start, "/")
	if t.Revision > 0 && s.tokenExpired(t.Issued) {
		return t, s.expiredToken(t.Start)
	}
	return t, nil
}
