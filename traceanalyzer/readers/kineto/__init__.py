"""Reads Kineto / Chrome trace JSON, as torch.profiler writes it.

    reader         the way from a file to a Trace
    header         what stands around the event array
    windows        cuts the text between events and decodes it, window by window, in one reused buffer
    events         the raw form of events, as msgspec decodes them
    fields         which fields of events are read, and which columns they fill
    columns        events of a window become columns, attribute by attribute
    values         one column of values of many events
    codes          codes of threads and categories
    accelerators   events of devices that write no kernels
    details        events of devices from other writers of torch, in the form that Kineto has
    implausible    what cannot be true of a trace
    labels         what a program says of kernels of its graphs under keys of its own
    merged         ranks that a script merged into one file
    recovery       a window that does not decode is read one event at a time, so that a broken event loses one event
    scanning       plain text goes straight to columns in C (`_scan.c`); nothing but time depends on it
    ahead          several processes decode windows of one file
    parts          what these made, and how it is joined to the rest

A field is declared once. The column in `trace/tables.py` names the argument that fills it, because there mypy knows it
and `trace` must not import `readers`; `fields` adds what is no single argument. The types that msgspec decodes to, the
columns, the pools of codes and what the scan reads follow from the two.

The scan writes the values that `fields` lists, and stops at the first thing that it does not expect: text that is no
JSON, a number in quotes, an unknown category, a key twice. Then msgspec decodes that event and those beside it, and the
scan goes on behind them. So C neither recovers nor interprets anything, and both ways result in the same trace, codes
and their order included (`reader` gives codes in the order of the tables); the tests of the reader run both ways. What
was compiled has a checksum of `_scan.c`; where the source in a checkout has another one, it is not used. Its hash of
texts has a seed that differs from process to process, so that no file can be made to be slow.

With several processes, `windows` alone still decides where windows begin and end. The text is read ahead, and its
likely windows are decoded by forked processes, two at a time, to columns in shared memory with pools of their own.
Where `windows` comes to the first of the two, the part is joined to the columns, and its codes are translated.
Everything else is decoded in the main process: windows that a damaged event has shifted, that do not decode, or whose
worker died. So the trace is identical for any number of processes.
"""
