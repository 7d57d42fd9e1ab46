"""Commands that read what `kpe observe` has recorded."""
