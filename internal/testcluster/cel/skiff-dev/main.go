// Command skiff-dev is cmd/skiff-dev with CEL, as it is released: the API server also takes definitions that have
// rules in CEL, and evaluates them. All else is in package devcli. It is a module of its own, because CEL as a real
// server has it needs the packages of that.
package main

import (
	"context"
	"io"
	"os"

	"k8s.io/klog/v2"

	"skiff/internal/cli"
	"skiff/internal/testcluster/cel"
	devcli "skiff/internal/testcluster/cli"
)

func main() {
	// What the real server's packages log is not for users of this one.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	cli.RunMain(func(ctx context.Context) int {
		return devcli.Main(ctx, os.Args, os.Stdout, os.Stderr, cel.New())
	})
}
