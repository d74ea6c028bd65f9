"""What the field knows about names, shapes and devices; nothing here looks at a trace.

    gpus                peak figures of GPUs and their links, from data sheets
    gpu_clocks          counters of clocks, power and temperature, and the highest clocks of GPUs
    accelerators        what events of MTIA, NPU and HPU stand for
    kernel_names        which kernels communicate, use matrix units, are for which GPUs
    kernel_classes      the table of words and classes, and the names that Inductor gives
    collectives         operation, size and traffic of a collective
    marks               names that mark steps, loaders, optimizers
    compiled_code       events of torch.compile
    graph_calls         calls that capture and launch graphs
    frameworks          frameworks and how each is recognized
    framework_marks     the marks of steps that each writes
    loaders             libraries that create loaders, and what their workers cost
    python_frames       which package a frame belongs to
    allocation_places   which part of a training program a stack of the allocator belongs to
    host_roles          the purpose of host work, as names show it
    first_match         tables of patterns, of which only those are tried that can match
    inputs              the recorded inputs of a call: the one parser of these texts
    op_shapes           elements of a call, and sides of products
    op_models           operations and bytes of an operator, a file per family
    profiler_overhead   what recording an event costs

A figure or a name that comes from elsewhere has its source beside it.
"""
