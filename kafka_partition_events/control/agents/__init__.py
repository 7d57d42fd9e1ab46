"""In an application: agents that follow changes, and what they need of each client."""
