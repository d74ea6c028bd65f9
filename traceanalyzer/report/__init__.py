"""The report on a trace: plain data that every format is made of."""
