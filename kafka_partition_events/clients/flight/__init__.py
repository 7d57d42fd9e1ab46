"""One record's way, whichever client sends it: placement, attempts, copies, one outcome. Knows no client.

- ``record.py``: what the application gave, an attempt to deliver it, a record that may get a copy;
- ``engine.py``: place, track, hand over, take back, fall back; what a client's adapter does;
- ``copies.py``: which records get a copy, and the budget for copies;
- ``detour.py``: a further handle, made on a thread of its own, around a blocked connection;
- ``reports.py``: what the failure detector learns, and what listeners learn of that;
- ``rescue.py``: the modes of a rescue, its statistics, and the header of copies;
- ``keyed.py``: keyed records that are placed, or held until they may go, as ``key_order.py`` decides by what
  it counts (``key_state.py``) and what was logged while all was well (``key_log.py``);
- ``key_moves.py``: where keys move; ``predecessors.py``: what a record says of that;
- ``key_episodes.py``: what listeners learn of it; ``cleanup_policy.py``: of which topics no key may.
"""
