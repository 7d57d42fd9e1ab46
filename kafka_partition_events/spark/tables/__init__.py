"""The fleet's tables, as files or in a catalog, and the ledger of what is in them."""
