"""`kpe demo events` and `kpe demo fleet`: who is told when a topic grows, a broker dies, and so on."""
