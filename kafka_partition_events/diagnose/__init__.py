"""What is found out about a topic: which hash placed its keys, what one broker can block. Pure."""
