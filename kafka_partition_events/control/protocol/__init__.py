"""What is on the wire of change control, and what it means: words, records, bounds, ledgers, orders. Pure."""
