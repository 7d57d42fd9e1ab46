"""Spark: the partition column, the fleet pipeline, the what-if planner."""
