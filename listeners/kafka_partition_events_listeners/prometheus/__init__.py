"""Prometheus: what exposes a poller, the observer's pipeline and change control."""
