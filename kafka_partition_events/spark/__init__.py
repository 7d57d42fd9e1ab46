"""What happened to a fleet, computed by PySpark from the events that observers wrote to Kafka.

Importing this package imports neither PySpark nor anything that needs Java; its modules do when used.
"""
