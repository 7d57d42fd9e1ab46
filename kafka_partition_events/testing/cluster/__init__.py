"""A real Kafka: its nodes, what each of them knows, and what a test does to them."""
