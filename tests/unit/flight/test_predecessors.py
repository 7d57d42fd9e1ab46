"""The header that names a key's earlier records in other partitions."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.clients.flight.predecessors import AFTER_HEADER, format_after, parse_after

partitions = st.integers(0, 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)


@given(st.dictionaries(partitions, offsets, min_size=1, max_size=5))
def test_what_is_written_is_read(after: dict[int, int]) -> None:
    assert parse_after([("other", b"1:1"), (AFTER_HEADER, format_after(after))]) == after


def test_a_partition_that_is_named_twice_counts_with_its_highest_offset() -> None:
    assert parse_after([(AFTER_HEADER, b"3:7,3:5"), (AFTER_HEADER, b"3:9,4:0")]) == {3: 9, 4: 0}


@given(
    st.one_of(st.none(), st.text(), st.binary(), st.sampled_from([b"1:", b":2", b"1:2,", b"-1:2", b" 1:2"]))
)
def test_what_is_no_such_list_names_nothing_and_raises_nothing(value: object) -> None:
    found = parse_after([(AFTER_HEADER, value)])
    assert found == {} or isinstance(value, bytes)


def test_no_headers_name_nothing() -> None:
    assert parse_after(None) == {}
    assert parse_after([]) == {}
