"""Code that runs inside the traced process. It needs only the standard library and that process's torch.

    importing   waits until the program imports torch
    program     the capture in one process
    settings    what was asked for, and what is reported back
    hooks       hooks into optimizers, loaders, gradients
    seen        collects what the hooks observe
    samples     what a sample of a dataset costs
    threads     how long threads run, and what those of Python do
    updates     changes of parameters
    steps       where steps end, and how long they take
    recorder    waits, warms up, records, saves
    recording   one recording with torch.profiler
    whole_run   records from the start, in case there are no steps
    facts       versions, devices, precision, parallelism
    tracefile   writes the files
    endings     saves before a program ends
    tools       what every recording needs
    bootstrap   the `sitecustomize` that starts all this

The dependencies of this project may be missing in the program's environment: `traceanalyzer capture` may start a Python
that traceanalyzer is not installed in. So the modules here import each other relatively, and
`bootstrap/sitecustomize.py` loads them by their place on disk. The agent never raises into the program, changes no exit
code, and removes its hooks at the end.
"""
