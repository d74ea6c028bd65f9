"""What runs the rules: facts, prices, claims, checks, headlines."""
