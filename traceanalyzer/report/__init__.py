"""The report on a trace: plain data that every renderer reads."""
