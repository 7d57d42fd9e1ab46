"""What the rows of a benchmark say."""
