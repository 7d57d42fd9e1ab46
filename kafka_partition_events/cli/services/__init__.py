"""What commands use of the world outside: the protocols, and how confluent-kafka fulfils them."""
