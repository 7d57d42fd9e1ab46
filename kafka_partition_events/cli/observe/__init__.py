"""The commands of ``kpe observe`` and of what it keeps."""
