#!/usr/bin/env bash
# Posts a file as a comment of a pull request, or updates the one that an earlier run posted.
#
# comment.sh FILE
#
# GH_TOKEN      a token that may write comments of pull requests
# REPOSITORY    owner/name
# PULL_REQUEST  its number
set -euo pipefail

file="$1"
# The first line of every Markdown file of traceanalyzer is a mark, without its version: `<!-- traceanalyzer report`.
mark='<!-- traceanalyzer '
comments="repos/$REPOSITORY/issues/$PULL_REQUEST/comments"

mine="$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$mark\")) | .id" | head -n 1)"
if [ -n "$mine" ]; then
    gh api --method PATCH "repos/$REPOSITORY/issues/comments/$mine" --field "body=@$file" --silent
else
    gh api --method POST "$comments" --field "body=@$file" --silent
fi
