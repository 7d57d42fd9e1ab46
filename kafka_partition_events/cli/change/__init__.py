"""The commands of change control."""
