package fakeapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/fakeapi/kinds"
	"skiff/internal/kube"
)

// The error answers, in the words of a v1.36 server. Each is a *kube.Status, the type that the client reads.

func failure(code int, reason, message string, details kube.StatusDetails) *kube.Status {
	return &kube.Status{Status: "Failure", Code: code, Reason: reason, Message: message, Details: details}
}

// about names an object as most errors do: kind is the plural.
func about(r kube.Resource, name string) kube.StatusDetails {
	return kube.StatusDetails{Name: name, Group: r.Group, Kind: r.Plural}
}

// aboutKind names an object by its Kind, as 422 and the preconditions of DELETE do.
func aboutKind(r kube.Resource, name string) kube.StatusDetails {
	return kube.StatusDetails{Name: name, Group: r.Group, Kind: r.Kind}
}

// qualify returns "Deployment.apps", or the kind alone for the core group.
func qualify(d kube.StatusDetails) string {
	if d.Group == "" {
		return d.Kind
	}
	return d.Kind + "." + d.Group
}

func notFound(r kube.Resource, name string) *kube.Status {
	d := about(r, name)
	return failure(http.StatusNotFound, kube.ReasonNotFound, fmt.Sprintf("%s %q not found", qualify(d), name), d)
}

func noResource() *kube.Status {
	return failure(http.StatusNotFound, kube.ReasonNotFound, "the server could not find the requested resource",
		kube.StatusDetails{})
}

func alreadyExists(r kube.Resource, name string) *kube.Status {
	d := about(r, name)
	return failure(http.StatusConflict, kube.ReasonAlreadyExists,
		fmt.Sprintf("%s %q already exists", qualify(d), name), d)
}

func conflict(d kube.StatusDetails, why string) *kube.Status {
	return failure(http.StatusConflict, kube.ReasonConflict,
		fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", qualify(d), d.Name, why), d)
}

const modified = "the object has been modified; please apply your changes to the latest version and try again"

func badRequest(format string, args ...any) *kube.Status {
	return failure(http.StatusBadRequest, "BadRequest", fmt.Sprintf(format, args...), kube.StatusDetails{})
}

func methodNotAllowed() *kube.Status {
	return failure(http.StatusMethodNotAllowed, "MethodNotAllowed",
		"the server does not allow this method on the requested resource", kube.StatusDetails{})
}

func internalError(format string, args ...any) *kube.Status {
	text := fmt.Sprintf(format, args...)
	return failure(http.StatusInternalServerError, "InternalError", "Internal error occurred: "+text,
		kube.StatusDetails{Causes: []kube.StatusCause{{Message: text}}})
}

func unsupportedMediaType(format string, args ...any) *kube.Status {
	return failure(http.StatusUnsupportedMediaType, "UnsupportedMediaType",
		fmt.Sprintf(format, args...), kube.StatusDetails{})
}

// invalid is the 422 for fields that break a rule.
func invalid(d kube.StatusDetails, causes []kinds.Cause) *kube.Status {
	var texts []string
	for _, c := range causes {
		if text := c.Field + ": " + c.Message; !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	list := strings.Join(texts, ", ")
	if len(texts) > 1 {
		list = "[" + list + "]"
	}
	d.Causes = causes
	return failure(http.StatusUnprocessableEntity, "Invalid",
		fmt.Sprintf("%s %q is invalid: %s", qualify(d), d.Name, list), d)
}

// expired is the 410 for a revision that is no longer in the history.
func expired(message string) *kube.Status {
	return failure(http.StatusGone, kube.ReasonExpired, message, kube.StatusDetails{})
}

// tooLarge is the 504 for a revision in the future.
func tooLarge(asked, current int64) *kube.Status {
	return failure(http.StatusGatewayTimeout, "Timeout",
		fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", asked, current),
		kube.StatusDetails{RetryAfterSeconds: 1, Causes: []kube.StatusCause{{Reason: "ResourceVersionTooLarge",
			Message: "Too large resource version"}}})
}

// plainError has no reason, like errors that the real server did not expect: "resourceVersion should not be set ...".
func plainError(format string, args ...any) *kube.Status {
	return failure(http.StatusInternalServerError, "", fmt.Sprintf(format, args...), kube.StatusDetails{})
}

func unauthorized() *kube.Status {
	return failure(http.StatusUnauthorized, "Unauthorized", "Unauthorized", kube.StatusDetails{})
}

// notServed is for features of a real server that this one does not have.
func notServed(what string) *kube.Status {
	return failure(http.StatusNotImplemented, "NotImplemented", what+" is not served by skiff's embedded API server",
		kube.StatusDetails{})
}

// notEvaluated refuses an object that a real server would evaluate with other requests, and this one would ignore.
func notEvaluated(k *kinds.Kind) *kube.Status {
	return failure(http.StatusNotImplemented, "NotImplemented", fmt.Sprintf("a %s would have no effect: skiff's "+
		"embedded API server has no %s", k.Kind, k.Refused), kube.StatusDetails{Group: k.Group, Kind: k.Plural})
}

// expiredPage is the 410 for a continue token. It has a new token, for clients that do not need a consistent list.
type expiredPage struct {
	*kube.Status
	next string
}

func (e *expiredPage) Unwrap() error { return e.Status }

// statusObject encodes an error. An error that is not a Status becomes a 500.
func statusObject(err error) (map[string]any, *kube.Status) {
	st := kube.AsStatus(err)
	if st == nil {
		st = internalError("%v", err)
	}
	meta := map[string]any{}
	var page *expiredPage
	if errors.As(err, &page) {
		meta["continue"] = page.next
	}
	out := map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": meta, "status": "Failure",
		"message": st.Message, "code": int64(st.Code)}
	if st.Reason != "" {
		out["reason"] = st.Reason
	}
	if details := detailsObject(st.Details); len(details) > 0 || emptyDetails(st) {
		out["details"] = details
	}
	return out, st
}

// emptyDetails marks answers that have empty details instead of none.
func emptyDetails(st *kube.Status) bool {
	return strings.HasPrefix(st.Message, routerNotAcceptable) || st.Code == http.StatusMethodNotAllowed ||
		st.Code == http.StatusForbidden ||
		st.Code == http.StatusNotFound || st.Code == http.StatusUnprocessableEntity
}

func detailsObject(d kube.StatusDetails) map[string]any {
	out := map[string]any{}
	for k, v := range map[string]string{"name": d.Name, "group": d.Group, "kind": d.Kind, "uid": d.UID} {
		if v != "" {
			out[k] = v
		}
	}
	if d.RetryAfterSeconds > 0 {
		out["retryAfterSeconds"] = int64(d.RetryAfterSeconds)
	}
	var causes []any
	for _, c := range d.Causes {
		cause := map[string]any{}
		for k, v := range map[string]string{"reason": c.Reason, "message": c.Message, "field": c.Field} {
			if v != "" {
				cause[k] = v
			}
		}
		causes = append(causes, cause)
	}
	if causes != nil {
		out["causes"] = causes
	}
	return out
}

// writeError answers with a Status, or with plain text for a path that no API serves.
func writeError(w http.ResponseWriter, err error) {
	if _, ok := err.(textNotFound); ok {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	body, st := statusObject(err)
	setRetryAfter(w, st)
	writeJSON(w, st.Code, body)
}

func setRetryAfter(w http.ResponseWriter, st *kube.Status) {
	if st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(st.Details.RetryAfterSeconds))
	}
}
