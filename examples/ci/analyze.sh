#!/usr/bin/env bash
# Writes traceanalyzer.md and traceanalyzer.sarif; ends with the exit code that the job should have.
#
# TRACE               the trace of this change
# BASE                the trace to compare with; empty: only a report
# FAIL_ON             severity of a finding that fails the job; empty: none
# FAIL_ON_REGRESSION  slower by more than this fails the job, such as 3%; empty: none
# CHARTS_URL          address at which the folder traceanalyzer-charts will be found; empty: blocks instead of images
# PAGE_URL            address at which a page of the same will be found, which the comment links to; empty: no link
# HEAD_COMMIT         commit of this change, which the comment names; empty: none
# BASE_COMMIT         commit of the trace to compare with
# REPORT_LANG         language of the report
set -euo pipefail

report=(traceanalyzer report "$TRACE" --quiet --force --lang "${REPORT_LANG:-en}" -o traceanalyzer.sarif)
if [ -n "${FAIL_ON:-}" ]; then
    report+=(--fail-on "$FAIL_ON")
fi

if [ -z "${BASE:-}" ]; then
    if [ -n "${CHARTS_URL:-}" ]; then
        report+=(--assets traceanalyzer-charts --assets-url "$CHARTS_URL")
    fi
    exec "${report[@]}" --commit "${HEAD_COMMIT:-}" ${PAGE_URL:+--page-url "$PAGE_URL"} -o traceanalyzer.md
fi

diff=(traceanalyzer diff "$BASE" "$TRACE" --quiet --force --lang "${REPORT_LANG:-en}" -o traceanalyzer.md)
diff+=(--base-commit "${BASE_COMMIT:-}" --head-commit "${HEAD_COMMIT:-}" ${PAGE_URL:+--page-url "$PAGE_URL"})
if [ -n "${FAIL_ON_REGRESSION:-}" ]; then
    diff+=(--fail-on-regression "$FAIL_ON_REGRESSION")
fi
found=0
"${report[@]}" || found=$?
changed=0
"${diff[@]}" || changed=$?
if [ "$changed" -eq 3 ]; then
    echo 'The traces are too noisy to tell whether this is slower: record more steps.' >&2
    changed=0
fi
exit $((changed > found ? changed : found))
