"""The service that decides: elected, it obeys commands, grows topics, and opens gates."""
