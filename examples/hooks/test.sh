#!/bin/sh
# Calls the sync hook of each example without a cluster, and compares the answer with test/want.yaml.
set -eu
cd "$(dirname "$0")"
for dir in */; do
    set -- # the objects that the example has
    for kind in children related; do
        if [ -e "$dir/test/$kind.yaml" ]; then set -- "$@" "--$kind" "$dir/test/$kind.yaml"; fi
    done
    "${SKIFF:-skiff}" hooks call -f "$dir/controller.yaml" --parent "$dir/test/parent.yaml" "$@" |
        diff "$dir/test/want.yaml" -
    echo "$dir answers as in test/want.yaml"
done
