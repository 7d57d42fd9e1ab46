"""How agents reach the control topics, by client. A link imports its client; nothing else here does."""
