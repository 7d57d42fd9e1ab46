"""What becomes of a change: commands, evidence, transitions, plans. Pure."""
