package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// NoDetails is for errors that are not about an object.
var NoDetails kube.StatusDetails

// Plain is an answer in plain text, not a Status.
type Plain struct {
	Code int
	Text string
}

func (p Plain) Error() string { return p.Text }

// NoSuchPath is the answer to a path that no API serves.
var NoSuchPath = Plain{http.StatusNotFound, "404 page not found"}

// Failure returns the error with this code and reason.
func Failure(code int, reason, message string, details kube.StatusDetails) *kube.Status {
	return &kube.Status{Status: "Failure", Code: code, Reason: reason, Message: message, Details: details}
}

// About names an object as most errors do: kind is the plural.
func About(r kube.Resource, name string) kube.StatusDetails {
	return kube.StatusDetails{Name: name, Group: r.Group, Kind: r.Plural}
}

// AboutKind names an object by its Kind, as 422 and the preconditions of DELETE do.
func AboutKind(r kube.Resource, name string) kube.StatusDetails {
	return kube.StatusDetails{Name: name, Group: r.Group, Kind: r.Kind}
}

// Qualify returns "Deployment.apps", or the kind alone for the core group.
func Qualify(d kube.StatusDetails) string {
	if d.Group == "" {
		return d.Kind
	}
	return d.Kind + "." + d.Group
}

// failure is Failure for an error that is not about an object.
func failure(code int, reason, format string, args ...any) *kube.Status {
	return Failure(code, reason, fmt.Sprintf(format, args...), NoDetails)
}

func NotFound(r kube.Resource, name string) *kube.Status {
	d := About(r, name)
	return Failure(http.StatusNotFound, kube.ReasonNotFound, fmt.Sprintf("%s %q not found", Qualify(d), name), d)
}

func NoResource() *kube.Status {
	return failure(http.StatusNotFound, kube.ReasonNotFound, "the server could not find the requested resource")
}

// AlreadyExists refuses an object whose name another one has, which may be on its way out.
func AlreadyExists(r kube.Resource, name string, deleting bool) *kube.Status {
	d, before := About(r, name), ""
	if deleting {
		before = "object is being deleted: "
	}
	return Failure(http.StatusConflict, kube.ReasonAlreadyExists,
		fmt.Sprintf("%s%s %q already exists", before, Qualify(d), name), d)
}

func Conflict(d kube.StatusDetails, why string) *kube.Status {
	return Failure(http.StatusConflict, kube.ReasonConflict,
		fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", Qualify(d), d.Name, why), d)
}

// Modified is why an update of an older state is refused.
const Modified = "the object has been modified; please apply your changes to the latest version and try again"

func BadRequest(format string, args ...any) *kube.Status {
	return failure(http.StatusBadRequest, "BadRequest", format, args...)
}

func MethodNotAllowed() *kube.Status {
	return failure(http.StatusMethodNotAllowed, "MethodNotAllowed",
		"the server does not allow this method on the requested resource")
}

// NotSupported refuses a verb that a custom resource does not have.
func NotSupported(r kube.Resource, verb string) *kube.Status {
	d := About(r, "")
	return Failure(http.StatusMethodNotAllowed, "MethodNotAllowed",
		fmt.Sprintf("%s is not supported on resources of kind %q", verb, Qualify(d)), d)
}

func InternalError(format string, args ...any) *kube.Status {
	text := fmt.Sprintf(format, args...)
	return Failure(http.StatusInternalServerError, "InternalError", "Internal error occurred: "+text,
		kube.StatusDetails{Causes: []kube.StatusCause{{Message: text}}})
}

func NotAcceptable(message string) *kube.Status {
	return Failure(http.StatusNotAcceptable, "NotAcceptable", message, NoDetails)
}

func UnsupportedMediaType(format string, args ...any) *kube.Status {
	return failure(http.StatusUnsupportedMediaType, "UnsupportedMediaType", format, args...)
}

// Invalid is the 422 for fields that break a rule, nil for none.
func Invalid(d kube.StatusDetails, causes ...kinds.Cause) error {
	if len(causes) == 0 {
		return nil
	}
	list := obj.Aggregate(obj.Each(causes, func(c kinds.Cause) string { return c.Field + ": " + c.Message }))
	d.Causes = StatusCauses(causes)
	return Failure(http.StatusUnprocessableEntity, "Invalid",
		fmt.Sprintf("%s %q is invalid: %s", Qualify(d), d.Name, list), d)
}

// StatusCauses returns causes as a Status has them.
func StatusCauses(causes []kinds.Cause) []kube.StatusCause {
	return obj.Each(causes, func(c kinds.Cause) kube.StatusCause { return kube.StatusCause(c) })
}

// InvalidOptions is Invalid for the parameters of a request, such as CreateOptions.
func InvalidOptions(kind string, causes ...kinds.Cause) error {
	return Invalid(kube.StatusDetails{Group: "meta.k8s.io", Kind: kind}, causes...)
}

// Expired is the 410 for a revision that is no longer in the history.
func Expired(message string) *kube.Status {
	return Failure(http.StatusGone, kube.ReasonExpired, message, NoDetails)
}

// TooLarge is the 504 for a revision in the future.
func TooLarge(asked, current int64) *kube.Status {
	return Failure(http.StatusGatewayTimeout, "Timeout",
		fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", asked, current),
		kube.StatusDetails{RetryAfterSeconds: 1, Causes: []kube.StatusCause{{Reason: "ResourceVersionTooLarge",
			Message: "Too large resource version"}}})
}

// TimedOut is the 504 for a request whose webhooks take too long.
func TimedOut() *kube.Status {
	return failure(http.StatusGatewayTimeout, "Timeout", "Timeout: request did not complete within requested timeout")
}

// PlainError has no reason, like errors that the real server did not expect: "resourceVersion should not be set ...".
func PlainError(format string, args ...any) *kube.Status {
	return failure(http.StatusInternalServerError, "", format, args...)
}

func Unauthorized() *kube.Status {
	return Failure(http.StatusUnauthorized, "Unauthorized", "Unauthorized", NoDetails)
}

// Forbidden is the 403 for what a user may not do; an empty resource is for a path.
func Forbidden(group, resource, name, text string) *kube.Status {
	d := kube.StatusDetails{Name: name, Group: group, Kind: resource}
	switch {
	case resource == "":
		text = "forbidden: " + text
	case name == "":
		text = Qualify(d) + " is forbidden: " + text
	default:
		text = fmt.Sprintf("%s %q is forbidden: %s", Qualify(d), name, text)
	}
	return Failure(http.StatusForbidden, "Forbidden", text, d)
}

// NotImplemented is for features of a real server that this one does not have.
func NotImplemented(message string, details kube.StatusDetails) *kube.Status {
	return Failure(http.StatusNotImplemented, "NotImplemented", message, details)
}

// ExpiredPage is the 410 for a continue token. It has a new token, for clients that do not need a consistent list.
type ExpiredPage struct {
	*kube.Status
	Next string
}

func (e *ExpiredPage) Unwrap() error { return e.Status }

// StatusObject encodes an error. An error that is not a Status becomes a 500.
func StatusObject(err error) (map[string]any, *kube.Status) {
	st := kube.AsStatus(err)
	if st == nil {
		st = InternalError("%v", err)
	}
	meta := map[string]any{}
	if page, ok := errors.AsType[*ExpiredPage](err); ok {
		meta["continue"] = page.Next
	}
	out := map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": meta, "status": "Failure",
		"message": st.Message, "code": int64(st.Code)}
	if st.Reason != "" {
		out["reason"] = st.Reason
	}
	if details := DetailsObject(st.Details); len(details) > 0 || emptyDetails(st) {
		out["details"] = details
	}
	return out, st
}

// emptyDetails marks answers that have empty details instead of none.
func emptyDetails(st *kube.Status) bool {
	ofRouter := strings.HasPrefix(st.Message, strconv.Itoa(st.Code)+": ")
	return ofRouter || st.Code == http.StatusMethodNotAllowed ||
		st.Code == http.StatusForbidden && !strings.HasPrefix(st.Message, "admission webhook ") ||
		st.Code == http.StatusNotFound || st.Code == http.StatusUnprocessableEntity
}

// DetailsObject encodes the details of a Status.
func DetailsObject(d kube.StatusDetails) map[string]any {
	causes := obj.Each(d.Causes, func(c kube.StatusCause) any {
		return obj.OmitEmpty(map[string]any{"reason": c.Reason, "message": c.Message, "field": c.Field})
	})
	return obj.OmitEmpty(map[string]any{"name": d.Name, "group": d.Group, "kind": d.Kind, "uid": d.UID,
		"retryAfterSeconds": int64(d.RetryAfterSeconds), "causes": causes})
}

// Error answers with a Status, or with plain text for a path that no API serves.
func Error(w http.ResponseWriter, err error) {
	if plain, ok := err.(Plain); ok {
		http.Error(w, plain.Text, plain.Code)
		return
	}
	body, st := StatusObject(err)
	SetRetryAfter(w, st)
	JSON(w, st.Code, body)
}

// SetRetryAfter sets the header that goes with the details.
func SetRetryAfter(w http.ResponseWriter, st *kube.Status) {
	if st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(st.Details.RetryAfterSeconds))
	}
}
