"""Gated growth on real clusters: does a group with ``auto.offset.reset=latest`` miss a record?

`plan` says what is measured. A batch (`one_batch`) grows twenty topics at once, ten for each client as a
producer: `producing` and `consuming` are processes that can be killed, `story` is what the driver sees of
cluster and changes meanwhile. They write what they have seen to a `diary`, `counting` makes numbers of it,
and `report` a page.
"""
