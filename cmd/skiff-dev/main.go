// Command skiff-dev runs a Kubernetes test cluster on the user's machine. All that it does is in package devcli, which
// also says on which goroutine. This build does not evaluate CEL; that of internal/testcluster/cel does.
package main

import (
	"context"
	"os"

	"skiff/internal/cli"
	devcli "skiff/internal/testcluster/cli"
)

func main() {
	cli.RunMain(func(ctx context.Context) int { return devcli.Main(ctx, os.Args, os.Stdout, os.Stderr, nil) })
}
