"""What the gold tables say. DataFrames in, DataFrames out."""
