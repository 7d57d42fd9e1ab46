"""Which versions are supported is what this shows. Weekly and by hand, not part of ``make test``."""
