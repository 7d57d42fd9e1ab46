"""How long a change takes to reach a fleet, and what that costs.

Records, broker and tracker are real. `fleet` are the instances: the duties of real agents, without a thread
and a connection for each. `one_run` lets one change happen and measures, `report` renders what was kept.
"""
