"""Damages inputs at random and runs the tool on them: ``python -m tests.mutation --cases 3000 --seed 0``.

Whatever is wrong with a file, the tool either makes a report or gives a one-line error, and takes no more time and
memory than for the undamaged file. `bases` has the files, `damage` the kinds of damage, `commands` the commands,
`child` runs one in a separate process and measures it, `verdicts` checks the result, `campaign` runs all cases. Case N
of a seed is always the same, so that a failure can be repeated: ``--only N``.
"""
