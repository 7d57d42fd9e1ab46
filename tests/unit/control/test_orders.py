"""What producers are told, from what is known of changes."""

from kafka_partition_events.control.protocol.orders import as_limits, last_change, standing
from kafka_partition_events.control.protocol.records import Order
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Kind, Verb
from kafka_partition_events.routing.limits import NO_LIMITS, Limits
from tests.control_kit import ONE, TOPIC_ID, Story, gated, growth, shrinking


def test_the_last_change_of_a_subject_gives_its_order() -> None:
    story = Story()
    story.request(gated())
    story.command(Verb.CANCEL)
    story.request(gated(to_count=24), change_id="chg-2")
    last = last_change(story.ledger.changes.values(), growth().subject, TOPIC_ID)
    assert last is story.ledger.changes["chg-2"]
    assert last_change(story.ledger.changes.values(), "c-1|topic/other", None) is None


def test_what_was_asked_of_a_topic_does_not_hold_for_another_one_of_its_name() -> None:
    story = Story()
    story.request(shrinking())
    story.tick()
    changes = [story.ledger.changes[ONE]]
    assert standing(changes, growth()) == Order(limit=4)
    assert standing(changes, growth(topic_id="another")) == Order()
    assert last_change(changes, growth().subject, None) is changes[0]


def test_orders_become_limits_of_routes() -> None:
    of_broker = Spec(kind=Kind.OFFLINE, cluster_id="c-1", broker=2)
    back = Spec(kind=Kind.ONLINE, cluster_id="c-1", broker=3)
    orders = [
        (growth(), Order(limit=6, offline=frozenset({1}))),
        (growth(topic="other"), Order()),
        (of_broker, Order(broker_offline=True)),
        (back, Order()),
    ]
    wanted = Limits(counts={"orders": 6}, offline={"orders": frozenset({1})}, brokers=frozenset({2}))
    assert as_limits(orders) == wanted
    assert as_limits([]) == NO_LIMITS
