"""What a fault costs: producers beside each other while a real broker is frozen, killed or restarted.

`plan` says what is measured, `one_run` does one run (a subprocess produces, `inject` disturbs, `stored` reads
the topic back), `metrics` and `rules` make numbers of it and throw out disturbed runs, `report` and `plots`
render what was kept.
"""
