"""The fleet's tables, in a directory or in a catalog, and the state of what is in them."""
