"""What brokers report of consumer groups and of writers that do not run the library."""
