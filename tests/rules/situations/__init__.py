"""Situations for the rules: one module per rule, with the name of the rule's module, of functions without arguments.

`fires*` must give a finding of the rule, `quiet*` and `trap_*` must not; each trap is one false alarm that the rule's
page warns about. A situation is a trace builder, or the text of a table document. Each describes what a program does;
none is tuned to a threshold (edges have separate tests).
"""
