"""What an event belongs to, for all analyses: tree, links, steps, owners, gaps, waits, sums.

    context                a trace with what was computed of it: each intermediate result once, freed after its last use
    analysis               what an analysis is, and what it needs
    host_tree              the calls of host threads as trees, with the launches in them
    steps                  where steps begin and end
    recording              the kind of program, its steps, and which of them are typical
    typical                the typical steps as the population of every figure per step
    step_breakdown         the exclusive parts of a step
    resources              what bounds it
    owners                 which part of the program uses the host at each moment
    gaps                   when devices are busy and idle
    gap_causes             why they are idle
    idle_times             idle time by cause, cut at steps once for the window, the steps and the typical step
    events                 sets of events: what a row of a table counts, or idle time of one cause
    event_rows             the rows of the tables that a set of events contains
    host_activity          what host threads do: waits, allocations, compilation, operators
    host_waits             waits for loaders and for devices
    line_times             which lines of Python run during times that go through several functions
    late_starts            kernels that start late although their device is free
    first_uses             when code was most likely compiled or loaded although nothing is recorded of that
    launch_calls           which calls launch graphs
    repeated_calls         where the program calls the same few operators over and over
    tensor_loops           loops of the program over tensors, such as its parameters
    graph_events           which events graphs launch, and their labels
    graph_dependencies     which events of graphs wait for which others, as arrows say
    mark_forest            marks, nested
    module_calls           the call of a module to which nodes and launches belong
    operator_times         times of operators, and the work that their inputs ask for
    autograd               forward, backward, update
    recorded_collectives   the collectives of one trace
    unrecorded_work        what was launched before the recording, or not recorded
    block_lifetimes        when blocks of a memory snapshot were allocated and freed
    stack_rows             stacks as a tree of frames, and as the rows of a flame graph
    sums                   exact sums by group

All analyses ask these modules; what only one subject asks is in `analyzers`.
"""
