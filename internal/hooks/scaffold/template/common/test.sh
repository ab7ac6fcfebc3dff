#!/bin/sh
# Runs the hook without a cluster, on example.yaml and the children in test/, and compares its answer with
# test/want.json.
set -eu
cd "$(dirname "$0")"
{{build}}"${SKIFF:-skiff}" hooks call -f . --parent example.yaml --children test/children.yaml -o json >test/got.json
diff test/want.json test/got.json
rm test/got.json
echo "the hook answers as in test/want.json"
