"""Signed webhooks: as the specification has it, while secrets are replaced, and nothing else gets by."""

import base64
import hashlib

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events_listeners.webhook.signature import (
    SignatureError,
    key_of,
    signed_headers,
    verify,
)

ID, NOW, BODY = "9c0f5c1e-0000-5000-8000-000000000001", 1_795_000_000, b'{"specversion": "1.0"}'
OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 24).decode()


def hmac_by_hand(key: bytes, message: bytes) -> bytes:
    """RFC 2104, written out for keys of up to 64 bytes."""
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in padded) + inner).digest()


def test_the_example_that_the_specifications_libraries_are_tested_with() -> None:
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
        [key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_there_is_one_signature_for_each_secret_over_id_time_and_body() -> None:
    headers = signed_headers(ID, NOW, BODY, [b"o" * 32, b"n" * 24])
    signed = b"9c0f5c1e-0000-5000-8000-000000000001.1795000000." + BODY
    expected = [base64.b64encode(hmac_by_hand(key, signed)).decode() for key in (b"o" * 32, b"n" * 24)]
    assert headers["webhook-signature"] == f"v1,{expected[0]} v1,{expected[1]}"


def test_without_a_secret_a_request_has_an_id_all_the_same() -> None:
    assert signed_headers(ID, NOW, BODY) == {"webhook-id": ID, "webhook-timestamp": "1795000000"}


@pytest.mark.parametrize("known", [[OLD], [NEW], [NEW, OLD]], ids=["old", "new", "both"])
def test_while_a_secret_is_replaced_receivers_with_either_one_accept(known: list[str]) -> None:
    headers = signed_headers(ID, NOW, BODY, [key_of(OLD), key_of(NEW)])
    verify(BODY, headers, known, now=NOW)


def test_header_names_may_come_in_any_case() -> None:
    headers = {name.title(): value for name, value in signed_headers(ID, NOW, BODY, [key_of(OLD)]).items()}
    verify(BODY, headers, [OLD], now=NOW)


@pytest.mark.parametrize("clock", [NOW - 300, NOW + 300])
def test_clocks_may_be_five_minutes_apart(clock: float) -> None:
    verify(BODY, signed_headers(ID, NOW, BODY, [key_of(OLD)]), [OLD], now=clock)


@pytest.mark.parametrize("clock", [NOW - 301, NOW + 301])
def test_an_old_request_is_refused_however_well_it_is_signed(clock: float) -> None:
    with pytest.raises(SignatureError, match="within 300 seconds"):
        verify(BODY, signed_headers(ID, NOW, BODY, [key_of(OLD)]), [OLD], now=clock)


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "another"},
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-signature": "v1," + base64.b64encode(b"x" * 32).decode()},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,é\udce9"},
    ],
)
def test_whatever_is_changed_on_the_way_is_noticed(changed: dict[str, str]) -> None:
    headers = signed_headers(ID, NOW, BODY, [key_of(OLD)]) | changed
    with pytest.raises(SignatureError, match="no signature"):
        verify(BODY, headers, [OLD], now=NOW)


def test_a_changed_body_is_noticed() -> None:
    with pytest.raises(SignatureError, match="no signature"):
        verify(BODY + b" ", signed_headers(ID, NOW, BODY, [key_of(OLD)]), [OLD], now=NOW)


def test_another_version_of_signatures_proves_nothing() -> None:
    headers = signed_headers(ID, NOW, BODY, [key_of(OLD)])
    headers["webhook-signature"] = headers["webhook-signature"].replace("v1,", "v1a,")
    with pytest.raises(SignatureError, match="no signature"):
        verify(BODY, headers, [OLD], now=NOW)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_request_without_one_of_the_headers_is_not_signed(missing: str) -> None:
    headers = signed_headers(ID, NOW, BODY, [key_of(OLD)])
    del headers[missing]
    with pytest.raises(SignatureError, match=missing):
        verify(BODY, headers, [OLD], now=NOW)


@pytest.mark.parametrize("timestamp", ["", "now", "-1", "1e9", "٣", "9" * 5000])
def test_a_time_that_is_none_is_refused(timestamp: str) -> None:
    headers = signed_headers(ID, NOW, BODY, [key_of(OLD)]) | {"webhook-timestamp": timestamp}
    with pytest.raises(SignatureError, match="not signed within"):
        verify(BODY, headers, [OLD], now=NOW)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "hunter2",
        base64.b64encode(b"k" * 32).decode(),  # without whsec_
        "whsec_hunter2",
        "whsec_" + base64.b64encode(b"k" * 23).decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
        "whsec_é",
    ],
)
def test_a_weak_or_broken_secret_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(ConfigurationError, match="whsec_ and the base64") as caught:
        key_of(secret)
    assert "hunter2" not in str(caught.value)
