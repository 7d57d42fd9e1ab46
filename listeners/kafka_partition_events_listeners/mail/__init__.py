"""E-mail: what writes entries as messages, and brings them to a server."""
