"""Pytest plugin of the test kit."""
