"""Rebalance hooks, by client: new partitions are read from their beginning. A hook imports its client."""
