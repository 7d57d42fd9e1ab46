"""When a broker is suspected, and how it comes back: the numbers of the failure detector. Pure."""

from attrs import frozen


@frozen(kw_only=True)
class DetectorPolicy:
    """The numbers of the rule; all times are in seconds.

    A connection is *stalled* when it has been silent for longer than ``(linger + clamp(max(median_factor *
    median, tail_factor * p90, false alarm), shortest_stall, longest_stall)) * (1 + suspects that are not
    among its own candidates)``. Both bounds of the clamp are at least twice what all leaders usually take,
    see `Observations.patience_alone`. Stories of ``tests/spec/feedback`` pin each number.
    """

    # patience.yaml, far_away.yaml:
    median_factor: float = 3.0  # multiple of a broker's median time to answer that it may take
    tail_factor: float = 2.0  # of its 90th percentile: on a busy machine one answer in ten takes long
    shortest_stall: float = 0.025  # shorter silences are the noise of schedulers and garbage collectors
    longest_stall: float = 0.25  # a broker that is slow beside the others is noticed at the latest after this
    linger: float = 0.0  # how long clients hold records back to fill a batch; added to both bounds
    # telling.yaml: a suspect is avoided at once, but a hiccup is worth a detour, and no alarm
    announce_after: float = 0.25
    # our_own_fault.yaml: the most that the time between two polls of delivery reports counts as listened;
    # else our own process was stopped, or did something else
    longest_gap: float = 0.01
    # coming_back.yaml:
    first_rest: float = 0.25  # how long the circuit stays open the first time; twice as long each time after
    longest_rest: float = 8.0  # the upper bound of that
    forgiven_after: float = 10.0  # one rest is forgotten for each of these spans that a broker has been well
    probe_interval: float = 0.05  # the least time between two probes of one broker
    probes_to_clear: int = 3  # so many good answers close the circuit, and one for each rest before
    trusted_untried_after: float = 10.0  # on probation for so long without a record that needs it
    # unreachable.yaml: how long a lost connection counts when nothing else is heard; kafka-python and
    # librdkafka reconnect within a second
    down_for: float = 5.0
