"""Analyzes many traces in parallel, within the memory limit, and summarizes them in one index.

| module | content |
|---|---|
| `run` | a batch from start to end: find files, skip finished ones, analyze, group, summarize |
| `request` | the options of a batch |
| `triage` | which files are finished, which are to be analyzed, and which are no input |
| `job`, `processing` | the analysis of one file, and the messages between parent and worker |
| `summary_row`, `record` | the data stored for an analyzed file |
| `reports`, `rank_reports` | report files, also of runs with several ranks |
| `dispatch`, `machine`, `estimate`, `pool`, `worker` | scheduling within the memory limit, and the worker processes |
| `cluster` | workers on a Dask cluster |
| `catalog` | all files of a batch, on disk, so that memory does not grow with their number |
| `progress` | the interface that receives the progress of a batch |
| `overview`, `index`, `index_texts`, `spreadsheet` | the pages and tables about all files together |

`inputs` finds the files, detects their kind, and opens the folder of the reports.
"""
