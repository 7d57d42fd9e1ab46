"""A client's own certificate that has expired is named, by both clients; a TLS server plays the broker.

Where it is replaced, a source that has failed takes it over.
"""

import contextlib
import gc
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events import ConfigurationError, MetadataFetchError, MetadataSource
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource
from kafka_partition_events.clients.kafka_python.properties import kafka_python_settings
from tests.certificate_kit import Authority

pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <(ssl.SSLS|s)ocket")
PATIENCE_S = 1.0


@pytest.fixture(params=["confluent-kafka", "kafka-python"])
def source_of(request: pytest.FixtureRequest) -> Iterator[Callable[[Mapping[str, str]], MetadataSource]]:
    if request.param == "confluent-kafka":
        yield ConfluentMetadataSource
    else:
        yield lambda config: KafkaPythonMetadataSource(kafka_python_settings(config))
        gc.collect()  # of kafka-python's sockets, while their warning is filtered


@pytest.fixture
def authority(openssl: str, tmp_path: Path) -> Authority:
    return Authority(tmp_path, openssl)


@pytest.fixture
def broker(authority: Authority) -> Iterator[str]:
    """Where a server asks for a certificate, and then hangs up: a broker as far as TLS goes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("broker"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.ca)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_shake_hands, args=(listening, context), daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def _shake_hands(listening: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(ValueError):  # of a socket that was closed
        while listening.fileno() >= 0:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                connection.settimeout(PATIENCE_S)
                with context.wrap_socket(connection, server_side=True) as shaken:
                    shaken.recv(1_000)


def complaint(source: MetadataSource) -> str:
    with pytest.raises(MetadataFetchError) as failure:
        source.fetch(None, started_at=0.0, timeout=PATIENCE_S)
    return str(failure.value)


def test_that_the_clients_own_has_expired_is_told_until_it_was_replaced(
    source_of: Callable[[Any], MetadataSource], broker: str, authority: Authority
) -> None:
    certificate, key = authority.issue("kpe", days=-1)
    config = {
        "bootstrap.servers": broker,
        "security.protocol": "SSL",
        "ssl.ca.location": authority.ca,
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
    }
    with contextlib.closing(source_of(config)) as source:
        expired = f"the client's own certificate, {certificate}, has expired: it was good until "
        assert expired in complaint(source)
        authority.issue("kpe")
        complaint(source)  # of the connection that was made before
        told = complaint(source)
        assert "alert" not in told.lower()
        assert "expired" not in told


def test_a_ca_file_that_does_not_exist_is_told_at_once() -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.ca.location": "/no/ca.pem"}
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location"):
        ConfluentMetadataSource(config)
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location: there is no such file"):
        KafkaPythonMetadataSource(kafka_python_settings(config))
