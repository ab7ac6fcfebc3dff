package reload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/kube"
)

const (
	// maxSurveyTime is longer than the lists of a large cluster take, and bounds what expressions of users cost.
	maxSurveyTime = 2 * time.Minute
	// maxHeads is more ConfigMaps and Secrets than the largest clusters have; of each, the name is held.
	maxHeads = 300_000
	// maxSurveyed bounds what is kept of an object while the survey looks at the object.
	maxSurveyed = 1 << 20
)

// Hinted has all annotations that could be meant for skiff or Reloader, also where the name is mistyped.
type Hinted struct {
	Annotations kube.Labels `json:"annotations" prefix:"*skif *reload *Reload *stak *Stak"`
}

// Heading is the metadata of an object in a survey.
type Heading struct {
	kube.Meta
	Hinted
}

// surveyedSource is a ConfigMap or Secret in a survey.
type surveyedSource struct {
	Heading `json:"metadata"`
}

// surveyedWorkload is a workload in a survey.
type surveyedWorkload struct {
	Heading `json:"metadata"`
	Spec    struct {
		Paused   bool   `json:"paused"`
		Replicas *int32 `json:"replicas"`
		rolloutFields
		Template struct {
			Metadata Hinted  `json:"metadata"`
			Spec     podSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// target returns the workload as the controllers see workloads.
func (w *surveyedWorkload) target() *target {
	t := &target{Meta: Meta{w.Meta, Annotated{w.Annotations}}}
	t.Spec.Paused, t.Spec.Replicas, t.Spec.rolloutFields = w.Spec.Paused, w.Spec.Replicas, w.Spec.rolloutFields
	t.Spec.Template.Metadata.Annotations = w.Spec.Template.Metadata.Annotations
	t.Spec.Template.Spec = w.Spec.Template.Spec
	return t
}

// errTooMany ends a list.
var errTooMany = errors.New("too many objects")

// Look surveys namespaces, all if there are none. With reloader, Reloader's annotations count as well. The metadata of
// ConfigMaps and Secrets is requested without the data. Resources that the user may not list are left out and named.
func Look(ctx context.Context, c *kube.Client, namespaces []string, reloader bool) (*Survey, error) {
	limited, cancel := context.WithTimeout(ctx, maxSurveyTime)
	defer cancel()
	s := newSurvey(reloader)
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		err := s.read(limited, c, namespace)
		if err != nil && (ctx.Err() != nil || limited.Err() == nil) {
			return nil, err
		}
		if err != nil {
			s.NotRead = append(s.NotRead, NotRead{namespace, "workloads", "TooLong", fmt.Sprintf("the rest is not "+
				"looked at: it takes longer than %s; choose namespaces", maxSurveyTime)})
			break
		}
		s.finish()
	}
	s.sort()
	return &s.Survey, nil
}

// read reads the sources and workloads of a namespace.
func (s *survey) read(ctx context.Context, c *kube.Client, namespace string) error {
	for i, r := range []kube.Resource{sources.ConfigMaps, sources.Secrets} {
		kind := kindsOfSources[i]
		q := kube.Query{Resource: r, Namespace: namespace, Metadata: true}
		err := listEach(ctx, c, q, s, func(o *surveyedSource) { s.source(kind, &o.Meta, o.Annotations) })
		if err = s.unread(namespace, kind, r, err); err != nil {
			return err
		}
	}
	for _, r := range Kinds {
		if r == rollouts && !c.Serves(ctx, r) { // a server refuses a kind that it does not serve
			continue
		}
		q := kube.Query{Resource: r, Namespace: namespace}
		err := listEach(ctx, c, q, s, func(o *surveyedWorkload) { s.workload(r.Kind, o.target()) })
		if err = s.unread(namespace, "workloads", r, err); err != nil {
			return err
		}
	}
	return nil
}

// unread notes that a resource could not be listed, and returns any other error.
func (s *survey) unread(namespace, kind string, r kube.Resource, err error) error {
	n := NotRead{Namespace: namespace, Resource: r.GroupResource()}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooMany):
		n.Reason, n.Detail = "TooMany", fmt.Sprintf("there are more than %d ConfigMaps and Secrets: choose namespaces",
			maxHeads)
	case kube.IsForbidden(err):
		n.Reason, n.Detail = "Forbidden", "this user may not list them"
	default:
		return err
	}
	s.blind[namespace+"/"+kind] = true
	s.NotRead = append(s.NotRead, n)
	return nil
}

// listEach lists objects and looks at each on arrival, at one that is too large or broken as far as possible.
func listEach[T kube.Object](ctx context.Context, c *kube.Client, q kube.Query, s *survey, look func(T)) error {
	_, err := kube.List[T](ctx, c, q, kube.ListOptions{MaxObject: maxSurveyed,
		Each: func(o kube.Object, _ kube.Part, bad *kube.DecodeError) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case s.count > maxHeads:
				return errTooMany
			case bad != nil:
				s.broken(q.Resource.Kind, bad)
			default:
				look(o.(T))
			}
			return nil
		}})
	return err
}
