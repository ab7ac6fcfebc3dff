#!/bin/sh
# Runs the hook without a cluster, on example.yaml and the children in test/, and compares its answer with
# test/want.yaml.
set -eu
cd "$(dirname "$0")"
{{build}}"${SKIFF:-skiff}" hooks call -f controller.yaml --parent example.yaml --children test/children.yaml >test/got.yaml
diff test/want.yaml test/got.yaml
rm test/got.yaml
echo "the hook answers as in test/want.yaml"
