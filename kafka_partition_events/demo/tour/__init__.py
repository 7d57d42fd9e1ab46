"""`kpe demo events` and `kpe demo fleet`: the events when a topic grows, a broker dies, and so on."""
