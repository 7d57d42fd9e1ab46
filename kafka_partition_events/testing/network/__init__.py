"""The links of a cluster: what passes them goes through one process, which disturbs it."""
