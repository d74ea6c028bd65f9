"""What events belong to, for all analyses: trees, links, steps, the typical step, owners, gaps, waits, sums."""
