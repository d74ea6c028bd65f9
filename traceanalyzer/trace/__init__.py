"""What was measured, and nothing else: plain data that readers fill and analyzers query.

    model            Trace: all tables of a recording, and what was lost while reading
    tables           the tables, their columns, and the arguments of events that fill them
    table            columnar tables of numpy columns
    strings          dictionary-encoded columns: codes, and a pool with each distinct string once
    distinct         distinct values and orders of codes without sorting
    intervals        sets of intervals; all interval algebra is here
    tree             nesting of slices without a loop
    document         printed tables
    compile_log      what a log of torch.compile says
    graph_stacks     lines that made the nodes of graphs
    flight_recorder  what a dump of the flight recorder says
    memory_snapshot  what a snapshot of torch's memory says
    capture_facts    what a capture adds to the events

Rows are ordered by start time; those of equal start keep the order of the file. Unknown values are -1 or NaN.
"""
