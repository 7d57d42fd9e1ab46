"""Signed webhooks: as the specification has it, by one secret or two."""

import base64
import hashlib

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events_listeners.webhook.signature import key_of, signed_headers

ID, NOW, BODY = "9c0f5c1e-0000-5000-8000-000000000001", 1_795_000_000, b'{"specversion": "1.0"}'


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
