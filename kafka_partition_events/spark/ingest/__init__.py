"""From records in Kafka or in files to bronze, batch by batch."""
