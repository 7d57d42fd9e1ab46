"""Commands that need a cluster only."""
