"""Which brokers answer: a failure detector, fed by what was sent, answered and failed.

Kafka goes on naming a dead leader for the whole broker session (9 s by default), and it never names a slow
one; a producer that has records in flight there knows sooner. Brokers are judged as leaders and as in-sync
replicas of what others lead, because with ``acks=all`` a write needs both; and a partition by itself, which
may take nothing although its leader answers for others. They are compared with each other: when all are
silent it is our process or the network.

In the words of the field: a *failure detector* errs at times, so a *suspect* is avoided and not given up;
each broker has a *circuit breaker* (closed: trusted or doubted; open: suspect; half-open: on probation);
what waits behind a suspect's record on one connection is *head-of-line blocking*, which a second handle gets
around; a copy of what is stuck, which a client may send, is a *hedged request*.

=====================  ==============================================  ======================================
from -> to             cause                                           story in ``tests/spec/feedback``
=====================  ==============================================  ======================================
trusted -> doubted     stalled, and none that was asked later has      silence: without a witness
                       answered
doubted -> trusted     nothing stalled waits for it any more           silence: what the client gave up
...                    another doubted one answers                     our_own_fault: if all are silent
either -> suspect      stalled connections have it in common, and      silence: silence is suspect;
                       another one bears witness                       replicas: what the heads have in common
...                    the client lost the connection                  unreachable: a lost connection
...                    nearly all requests that take long need it      slowness: nearly all requests
suspect -> probation   it has rested, and nothing stalled needs it     coming_back: after its rest
suspect -> trusted     it answers within our patience: a false alarm   our_own_fault: a false alarm
probation -> suspect   a probe fails or stalls, or no connection       coming_back: each rest is twice
probation -> trusted   enough good answers                             coming_back: three good ones clear it
...                    no record that is written here needs it         coming_back: trusted untried
bad -> trusted         none is trusted, and it answers or has nothing  coming_back: where no other is left
                       in flight
...                    metadata lists it no more, or nothing needs it  unreachable: no longer lists
=====================  ==============================================  ======================================

All go through `BrokerState.enter`. Producers report to ``tracker.py``; ``detector.py`` puts all together.
"""
