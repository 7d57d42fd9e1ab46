"""Each key in its order for who reads, although keys move between partitions. Knows no client.

- ``order.py``: which record may be handed out, which waits and for what, which is a copy. Pure;
- ``asking.py``: a thread that asks what other members have committed, and where logs begin and end.
"""
