"""What all commands share: options, output, connections, exit codes."""
