"""The bottleneck lab measures what advice is worth, on faults of training programs and their fixes.

    python -m examples.lab list
    python -m examples.lab measure loop-over-elements -o run.json --traces traces/
    python -m examples.lab score

Run it from a checkout; only `measure` and `overhead` need torch. `catalogue` lists the faults, `faults/` holds their
programs, `worker` records and times them, `results/` keeps what was measured, `score` compares it with predictions,
`page` writes docs/lab.md.
"""
