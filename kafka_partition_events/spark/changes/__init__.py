"""Tables of changes: who followed, when, who did not, and whether the tracker counts as Spark does.

See docs/fleet.md. Import from the modules.
"""
