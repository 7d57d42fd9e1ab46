"""From bronze to silver and gold: finds what is new, and makes anew what that changes."""
