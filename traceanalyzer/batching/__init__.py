"""Analyzes many traces at once, in processes that fit into memory, and summarizes them in one index.

| module | what it is |
|---|---|
| `run` | a batch from beginning to end: find, skip what is done, analyze, group, summarize |
| `request` | what the user asked for |
| `triage` | which files are done already, which are to be analyzed, and which are no input |
| `job`, `processing` | one file: what is sent to a worker, and its analysis |
| `summary_row`, `record` | what is kept of an analyzed file |
| `reports`, `rank_reports` | reports as files, and the reports of runs with several ranks |
| `dispatch`, `machine`, `estimate`, `pool`, `worker` | how much fits, and the processes that do the work |
| `cluster` | the same on Dask |
| `catalog` | all files of a batch, on disk, so that memory does not grow with their number |
| `progress` | who is told how far the batch is |
| `overview`, `index`, `index_texts`, `spreadsheet` | what is written about all files together |

`inputs` finds the files, tells what they hold, and opens the folder of the reports.
"""
