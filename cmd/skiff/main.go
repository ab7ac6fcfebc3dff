// Command skiff runs Kubernetes controllers over plain HTTP. All that it does is in package cli, which also says on
// which goroutine.
package main

import (
	"context"
	"os"

	"skiff/internal/cli"
)

func main() {
	cli.Protect()
	cli.RunMain(func(ctx context.Context) int { return cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}
