"""Tables of changes: who followed, when, and who did not. See docs/fleet.md."""
