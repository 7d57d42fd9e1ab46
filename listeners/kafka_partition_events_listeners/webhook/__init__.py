"""Webhooks: what posts entries and events to a URL, and how it writes them."""
