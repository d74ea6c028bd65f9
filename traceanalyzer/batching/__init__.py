"""Many traces at once: found, analyzed in processes that fit the memory, told in one index.

| module | what it is |
|---|---|
| `run` | the story: find, recall, analyze, group, tell |
| `request` | what was asked for |
| `discovery`, `peek`, `names` | which files, what is in them, and what their reports are called |
| `runs` | which files are the ranks of one run |
| `work`, `digest`, `record` | one file: from a task to its reports, its row and its record |
| `written`, `joined` | reports as files, and the reports of runs with several ranks |
| `machine`, `estimate`, `pool` | how much fits, and the processes that do it |
| `cluster` | the same on Dask |
| `catalog` | all files of a batch, on disk, so that memory does not grow with their number |
| `storage`, `remote` | the folder of the reports: on this machine, or behind an fsspec URL |
| `index`, `spreadsheet` | what is said about all of them |
"""
