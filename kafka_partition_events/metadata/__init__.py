"""KNOW what the cluster is and what changed: snapshots, events, the staleness gate, the poller."""
