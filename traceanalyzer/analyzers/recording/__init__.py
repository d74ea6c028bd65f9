"""What was recorded: which program, which of its steps are typical, and what the recording does not show."""
