"""Change control: who has followed a change, and producers that wait for consumers (KIP-34's feedback loop).

What is here is pure: records, how logs of them are merged, the state machine of a change, what an instance
has to do. See docs/decisions/2026-11-21-change-control.md for who calls it.
"""
