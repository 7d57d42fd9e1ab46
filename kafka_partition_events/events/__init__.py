"""What leaves the process: names, facts, CloudEvents, entries of the journal. Pure."""
