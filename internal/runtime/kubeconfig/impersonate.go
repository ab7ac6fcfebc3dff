package kubeconfig

import (
	"fmt"
	"strings"

	"skiff/internal/runtime/kube"
)

// impersonation returns whom to act as. Without a user to act as, the rest is an error: the server would ignore it.
func (u *user) impersonation() (kube.Impersonation, error) {
	if u.As == "" {
		for field, set := range map[string]bool{
			"as-uid": u.AsUID != "", "as-groups": len(u.AsGroups) > 0, "as-user-extra": len(u.AsExtra) > 0,
		} {
			if set {
				return kube.Impersonation{}, fmt.Errorf("%s: needs the user to impersonate (as, or --as)",
					u.origin.at(field))
			}
		}
	}
	values := map[string][]string{"as": {u.As}, "as-uid": {u.AsUID}, "as-groups": u.AsGroups}
	if u.AsUID == "" {
		delete(values, "as-uid")
	}
	for key, extra := range u.AsExtra {
		values["as-user-extra"] = append(append(values["as-user-extra"], key), extra...)
	}
	for field, texts := range values {
		for _, text := range texts {
			if text == "" && u.As != "" && field != "as-user-extra" {
				return kube.Impersonation{}, fmt.Errorf("%s: is empty", u.origin.at(field))
			}
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return kube.Impersonation{}, fmt.Errorf("%s: %q holds characters that a header cannot carry",
					u.origin.at(field), text)
			}
		}
	}
	return kube.Impersonation{User: u.As, UID: u.AsUID, Groups: u.AsGroups, Extra: u.AsExtra}, nil
}
