"""What brokers tell of consumer groups and of writers, for those who do not speak for themselves."""
