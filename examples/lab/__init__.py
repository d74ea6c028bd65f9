"""The bottleneck lab: one small training, faults that can be put into it, and what the advice about them is worth.

    python -m examples.lab run slow-loader
    python -m examples.lab table
    python -m examples.lab record lab/

Run it from a checkout. `training` is the training and the places where a fault fits in, `faults` lists the faults with
their fixes, `measuring` records and times both. See docs/lab.md.
"""
