#!/bin/sh
# Plans what the files of a change would make skiff write in a cluster, and comments it on the pull request.
#
#   plan.sh DIR [flags of skiff plan]
#
# It needs skiff, and to comment also gh with PULL_REQUEST (its number) and a token. The cluster is that of the kubeconfig; read
# rights are enough. It exits with 0 if the plan could be made and nothing is blocked. Values of Secrets are not printed.
#
# GitHub refuses a comment of more than 65,536 characters ("Body is too long (maximum is 65536 characters)"). A longer plan is cut
# after a whole line, and the comment says so: the whole plan is in the output of this script.
set -u
[ $# -gt 0 ] || { echo "usage: plan.sh DIR [flags of skiff plan]" >&2; exit 2; }
files=$1
shift
room=65000 # bytes, which are never fewer than characters; the rest is for the lines around the plan
out=$(mktemp)
trap 'rm -f "$out" "$out.plan" "$out.comment"' EXIT
skiff plan -f "$files" "$@" > "$out.plan"
code=$?
sed -e 's/^  \([-+~!=]\)/\1 /' "$out.plan" > "$out" # diff colours lines that begin with a symbol
cat "$out"
case $code in
  0) exit 0 ;;                            # nothing to write: no comment
  3|4|1) ;;                               # writes; something is blocked; not all could be planned
  *) exit "$code" ;;
esac
if [ -n "${PULL_REQUEST:-}" ]; then
  { echo 'skiff plan:'; echo '```diff'; } > "$out.comment"
  LC_ALL=C awk -v room="$room" '(used += length($0) + 1) > room { exit } { print }' "$out" >> "$out.comment"
  echo '```' >> "$out.comment"
  lines=$(wc -l < "$out")
  shown=$(($(wc -l < "$out.comment") - 3))
  if [ "$shown" -lt "$lines" ]; then
    log=${GITHUB_RUN_ID:+: ${GITHUB_SERVER_URL:-}/${GITHUB_REPOSITORY:-}/actions/runs/$GITHUB_RUN_ID}
    echo "The plan is too long for a comment: the last $((lines - shown)) of its $lines lines are not shown." \
      "All of it is in the log of this job$log" >> "$out.comment"
  fi
  gh pr comment "$PULL_REQUEST" --body-file "$out.comment" --edit-last --create-if-none || exit 1
fi
[ "$code" = 3 ] || exit "$code"
