"""Data of a measurement: the trace, its tables, and the algebra of intervals and trees."""
