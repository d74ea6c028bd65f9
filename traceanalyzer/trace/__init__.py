"""What was measured: the trace, its tables, and the algebra of intervals and trees."""
