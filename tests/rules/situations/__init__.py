"""Situations for the rules: one module per rule, named as the rule's, of functions without arguments.

`fires*` must give a finding of the rule, `quiet*` and `trap_*` must not; each trap is one false alarm that the rule's
page warns of. A situation is a trace builder, or the text of a table document. Each describes what a program does;
none is tuned to a threshold (edges have tests of their own).
"""
