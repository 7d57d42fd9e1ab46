"""Which topics keep a latest value of each key, as a client says. No client."""

from contextlib import nullcontext

from kafka_partition_events.clients.flight.cleanup_policy import Answer, CleanupPolicies


def test_a_topic_is_asked_for_until_its_answer_is_final() -> None:
    answers: dict[str, Answer] = {
        "plain": ("delete", ""),
        "compacted": ("compact,delete", ""),
        "secret": (None, "TOPIC_AUTHORIZATION_FAILED"),
        "new": (None, "UNKNOWN_TOPIC_OR_PARTITION"),
    }
    asked: list[str] = []

    def ask(topic: str) -> Answer:
        asked.append(topic)
        return answers[topic]  # or it raises, as a client may

    policies = CleanupPolicies(lambda: nullcontext(ask))

    def polled(*topics: str) -> list[str]:
        asked.clear()
        policies.ask(topics)
        assert policies._thread is not None
        policies._thread.join(10)
        return asked

    assert not policies.may_move("plain")
    assert polled("plain", "compacted", "secret") == ["plain", "compacted", "secret"]
    assert polled("plain", "compacted", "secret") == []
    assert polled("plain", "new", "fails", "late") == ["new", "fails"]
    answers |= {"fails": ("delete", ""), "late": ("delete", "")}
    assert polled("new", "fails", "late") == ["new", "fails", "late"]
    assert [topic for topic in answers if policies.may_move(topic)] == ["plain", "fails", "late"]
    assert policies.refused == ("compacted", "secret")
