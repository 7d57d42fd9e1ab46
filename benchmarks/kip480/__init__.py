"""KIP-480 reproduced: what few, full batches are worth, beside round robin, random and librdkafka's default.

`plan` says what is measured, `one_run` does one run (a subprocess for each producer, `load`), `metrics` and
`rules` make numbers of it and throw out disturbed runs, `targets` and `report` render what was kept.
What is not about partitions and lingers is shared with `benchmarks.faults`.
"""
