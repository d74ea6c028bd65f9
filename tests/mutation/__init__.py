"""Damages inputs at random and runs the tool on them: ``python -m tests.mutation --cases 3000 --seed 0``.

Whatever is wrong with a file, the tool either makes a report or says in one line why not, and takes no more time and
memory than for the file as it was. `bases` has the files, `damage` what is done to them, `commands` what is run,
`child` runs it apart and measures, `verdicts` says what is wrong, `campaign` puts them together.

Case N of a seed is always the same, so that a failure can be run again: ``--only N``.
"""
