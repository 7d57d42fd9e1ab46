"""What would move, and how evenly keys would lie, if a topic had another number of partitions.

``kpe spark whatif`` is its command line. `plan` and `results` know no Spark; importing them needs none.
"""
