#!/bin/sh
# Runs the hook without a cluster, on example/ and the children in test/, and compares its answer with test/want.yaml.
# With --accept, the answer becomes test/want.yaml.
set -eu
cd "$(dirname "$0")"
{{build}}"${SKIFF:-skiff}" hooks call -f . --parent example/hello.yaml --children test/children.yaml >test/got.yaml
if [ "${1:-}" = --accept ]; then
    mv test/got.yaml test/want.yaml
    echo "test/want.yaml is now what the hook answers"
    exit
fi
if ! diff -u test/want.yaml test/got.yaml; then
    echo "the hook answers with other lines (+) than test/want.yaml has (-); if they are right: test.sh --accept" >&2
    exit 1
fi
rm test/got.yaml
echo "the hook answers as in test/want.yaml"
