"""What belongs to one Kafka client: its metadata source and how partitioners are embedded in its producer."""
