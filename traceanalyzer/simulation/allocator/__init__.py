"""A model of PyTorch's CUDA caching allocator: what a program would need of a GPU's memory after a change.

    sizes          how requests are rounded, and how much is reserved for them
    blocks         blocks of memory, and pools of free ones
    expanding      segments that get memory page by page
    caching        the allocator
    beginning      what it held before the first entry of a history
    recording      what a replay needs of a history, or why there can be none
    changes        changes of a program as data
    replaying      a history through the allocator: peaks of requested and of reserved bytes
    savings        what changes save, alone and together
    ideas          what could be changed in a program, by its blocks
    checkpointing  the layers of a model, and what it saves to compute their activations again

History records requested bytes, from which follow the peaks of what tensors need. What the allocator holds from the
device depends on rounding, on the order of requests and on which free block serves each, so these are replayed. The
unchanged replay must give the recorded peak (a law in the tests).
"""
