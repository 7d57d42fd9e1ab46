"""``kpe doctor``: what is wrong, what will be, and what to do about it."""
