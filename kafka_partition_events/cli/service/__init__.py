"""The service, and the files and settings that go with it."""
