"""What can go wrong with a benchmark, said in one line."""


class BenchError(Exception):
    """Something could not be measured; the message says what and what to do."""
