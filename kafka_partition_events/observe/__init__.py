"""``kpe observe``: a service that watches one cluster and reports what happens to its partitions.

The parts are elsewhere (the poller in ``metadata``, the outbox in ``outbox``, incidents in ``incidents``,
sinks among the ready-made listeners); here is what makes a service of them: configuration, HTTP, election.
"""
