"""What a fault costs: producers beside each other while real brokers are frozen, killed or cut off.

`layouts` says what clusters, topics and limits there are, `plan` which faults are measured in them, `one_run`
does one run (a subprocess produces, `inject` disturbs, `stored` reads the topic back), `metrics` and `rules`
make numbers of it and throw out disturbed runs, `targets` judges, `report` and `plots` render what was kept.
"""
