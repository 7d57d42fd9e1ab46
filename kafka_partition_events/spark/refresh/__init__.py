"""From bronze to silver and gold: finds what is new, and refreshes what that changes."""
