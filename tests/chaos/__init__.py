"""Long runs of random faults, by hand: what nobody thought of. Not part of ``make test``."""
