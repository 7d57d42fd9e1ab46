"""CHOOSE the partition of a record: routes, buffer budget, key hashes."""
