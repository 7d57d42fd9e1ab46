"""The fleet report: one self-contained HTML file from the gold tables."""
