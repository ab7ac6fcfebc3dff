package cli

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/check"
	"skiff/internal/kube"
)

// skewTimeout bounds how long the definitions of the cluster are asked for: nothing waits for it.
const skewTimeout = 30 * time.Second

// warnOfSkew logs which fields of this version the definitions in the cluster lack: the server drops them. What is not
// installed at all is for the controllers to report.
func warnOfSkew(ctx context.Context, c *kube.Client, log logr.Logger) {
	ctx, cancel := context.WithTimeout(ctx, skewTimeout)
	defer cancel()
	all, err := definitions()
	if err != nil {
		log.Error(err, "cannot read the definitions of this binary")
		return
	}
	for _, d := range all {
		fields, err := check.Lacking(ctx, c, d.object)
		switch {
		case err != nil && ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded:
			return // skiff stops
		case err != nil:
			log.V(1).Info("cannot compare a custom resource definition", "name", d.name, "problem", err.Error())
		case fields != "":
			log.Info(warning, "text", "the cluster has an older definition of "+d.name+", and the server drops the "+
				"fields that it lacks; run `skiff crds install`", "fields", fields)
		}
	}
}
