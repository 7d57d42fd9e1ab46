"""One record's way, whichever client sends it: placement, attempts, copies, one outcome. Knows no client.

- ``record.py``: what the application gave, an attempt to deliver it, a record that may get a copy;
- ``engine.py``: place, track, hand over, take back, fall back; what a client's adapter does;
- ``copies.py``: which records get a copy, and the budget for copies;
- ``detour.py``: a further handle, made on a thread of its own, around a blocked connection;
- ``reports.py``: what the failure detector learns, and what listeners learn of that;
- ``rescue.py``: modes, limits and headers of a rescue.
"""
