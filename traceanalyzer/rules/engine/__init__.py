"""What runs the rules, and what several subjects ask; `README.md` beside this file shows how a finding is made.

    rule              what a rule is: its page, its thresholds, its detectors, and the drafts that they yield
    facts             what rules see of a trace, of tables, of a compile log, of ranks
    event_times       what a finding is about: sets of events with their times
    change            the time that a fix removes
    claim_edits       its edits of the causal model
    where             its places in the recording
    prices            its saving by replay, alone and with the others
    budget            bounds of a saving where nothing can be replayed
    runner            runs the rules, prices and orders what they found
    checks            whether what they found can be priced and saved
    detection         runs rules of other packages in a forked process with a limit
    duplicates        one mechanism, one finding
    selection         which rules run, and with which thresholds
    snippets          which code a finding may show
    headlines         the sentence about what bounds a run
    runs              compares the runs of a document

Questions of several subjects:

    avoidable_waits   what removing waits for the device saves
    idle_time         idle time of the device that bounds the step
    host_owners       names the owners of host time that cause it
    host_work         what removing work of a program on the CPU saves
    late_rank         ranks that others wait for, and their cost
    stage_waits       what a stage of a pipeline waits for another one
    places            places that several subjects point to
    processor         what computes the operators, and how fast its memory is
    program           the kind of program, and its recorded settings
"""
