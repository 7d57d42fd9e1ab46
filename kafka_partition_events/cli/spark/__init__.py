"""``kpe spark``: jobs that are submitted, and their reports."""
