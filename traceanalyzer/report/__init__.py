"""What is said about a trace: plain data that every renderer reads."""
