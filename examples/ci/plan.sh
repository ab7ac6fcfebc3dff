#!/bin/sh
# Plans what the files of a change would make skiff write in a cluster, and comments it on the pull request.
#
#   plan.sh DIR [flags of skiff plan]
#
# It needs skiff, and to comment also gh with PULL_REQUEST (its number) and a token. The cluster is that of the kubeconfig; read
# rights are enough. It exits with 0 if the plan could be made and nothing is blocked. Values of Secrets are not printed.
set -u
[ $# -gt 0 ] || { echo "usage: plan.sh DIR [flags of skiff plan]" >&2; exit 2; }
files=$1
shift
out=$(mktemp)
trap 'rm -f "$out"' EXIT
{ echo 'skiff plan:'; echo '```diff'; } > "$out"
skiff plan -f "$files" "$@" > "$out.plan"
code=$?
sed -e 's/^  \([-+~!=]\)/\1 /' "$out.plan" >> "$out" # diff colours lines that begin with a symbol
rm -f "$out.plan"
echo '```' >> "$out"
cat "$out"
case $code in
  0) exit 0 ;;                            # nothing to write: no comment
  3|4|1) ;;                               # writes; something is blocked; not all could be planned
  *) exit "$code" ;;
esac
if [ -n "${PULL_REQUEST:-}" ]; then
  gh pr comment "$PULL_REQUEST" --body-file "$out" --edit-last --create-if-none || exit 1
fi
[ "$code" = 3 ] || exit "$code"
