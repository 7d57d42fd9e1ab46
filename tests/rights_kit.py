"""What tests of logins and rights share: a cluster with every way to log in, its users, a token server."""

import base64
import contextlib
import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.net.sasl.oauth import AbstractTokenProvider

from kafka_partition_events.clients.kafka_python.properties import kafka_python_settings
from kafka_partition_events.control import ConsumerAgent
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.tracker.tracker import Tracker
from kafka_partition_events.observe.config import load_config
from kafka_partition_events.observe.service import Service
from kafka_partition_events.testing import KafkaCluster
from tests.certificate_kit import Authority
from tests.login_kit import observer_file
from tests.waiting_kit import waiting

LIMIT_S: Final = 30.0
_CONNECTIONS: Final = 4
"""Enough to reach both network threads of a broker of the test kit, though others connect meanwhile."""
SCRAM_512, SCRAM_256, PLAIN, OAUTH, CERTIFICATE = (
    "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", "certificate",
)  # fmt: skip
WAYS: Final = (SCRAM_512, SCRAM_256, PLAIN, OAUTH, CERTIFICATE)
"""How clients log in: SASL's mechanisms over TLS, and mutual TLS."""

ALLOWED: Final = "alice"
REFUSED: Final = "nobody"
"""Users by any of these ways: one may do everything, the other nothing."""

PASSWORDS: Final = {ALLOWED: "alices-not-a-secret", REFUSED: "nobodys-not-a-secret"}
_AUDIENCE: Final = "kafka"
_KAFKA: Final = "org.apache.kafka.common.security"

wait_until = waiting(LIMIT_S)


class Output:
    """What was written to stdout and stderr."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.all = ""

    def read(self) -> tuple[str, str]:
        """Return what was written since the last time."""
        out, err = self._capfd.readouterr()
        self.all += out + err
        return out, err


class TokenServer:
    """Gives tokens to clients that know their secret (OAuth's client credentials), and tells its public key.

    Attributes:
        issued: The tokens.
        secrets: Of clients, by their ids.
        lives_s: How long a token is good.
    """

    def __init__(self, directory: Path, openssl: str) -> None:
        self._key, self._openssl = directory / "tokens.key", openssl
        self._run("genrsa", "-out", str(self._key), "2048")
        shown = self._run("rsa", "-in", str(self._key), "-noout", "-modulus").decode()
        modulus = _encoded(bytes.fromhex(shown.strip().partition("=")[2]))
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "e": "AQAB", "n": modulus}
        self._jwks = {"keys": [key]}
        self.secrets = dict(PASSWORDS)
        self.issued: list[str] = []
        self.lives_s = 3_600
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def token_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/keys"

    def token(self, client: str) -> str:
        """Return a new token of a client."""
        now = int(time.time())
        claims = {"sub": client, "aud": _AUDIENCE, "iat": now, "exp": now + self.lives_s, "scope": "kafka"}
        signed = ".".join(
            _encoded(json.dumps(part).encode())
            for part in ({"alg": "RS256", "typ": "JWT", "kid": "1"}, claims)
        )
        signature = self._run("dgst", "-sha256", "-sign", str(self._key), input=signed.encode())
        self.issued.append(f"{signed}.{_encoded(signature)}")
        return self.issued[-1]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _run(self, *arguments: str, input: bytes | None = None) -> bytes:  # noqa: A002 - as subprocess has it
        command = [self._openssl, *arguments]
        return subprocess.run(command, input=input, check=True, capture_output=True, timeout=60).stdout

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, server._jwks)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                basic = self.headers.get("Authorization", "").partition(" ")[2]
                client, _, secret = base64.b64decode(basic).decode().partition(":")
                if server.secrets.get(urllib.parse.unquote(client)) != urllib.parse.unquote(secret):
                    self._answer(401, {"error": "invalid_client"})
                    return
                token = server.token(client)
                self._answer(
                    200, {"access_token": token, "token_type": "Bearer", "expires_in": server.lives_s}
                )

            def _answer(self, status: int, document: Mapping[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Asks the token server for kafka-python, as an application would."""

    def __init__(self, url: str, client: str, secret: str) -> None:
        super().__init__()
        basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
        self._request = urllib.request.Request(  # noqa: S310 - the loopback
            url, b"grant_type=client_credentials", {"Authorization": f"Basic {basic}"}
        )

    def token(self) -> str:
        with urllib.request.urlopen(self._request, timeout=LIMIT_S) as answer:  # noqa: S310
            return str(json.load(answer)["access_token"])


@frozen
class World:
    """A cluster with every way to log in, that asks everybody for rights."""

    cluster: KafkaCluster
    authority: Authority
    tokens: TokenServer
    admin: AdminClient

    def config(self, way: str, user: str = ALLOWED) -> dict[str, str]:
        """Return how confluent-kafka logs in."""
        if way == CERTIFICATE:
            certificate, key = (str(self.authority.directory / f"{user}.{end}") for end in ("pem", "key"))
            return {
                "bootstrap.servers": self.cluster.addresses("CERTS"),
                "security.protocol": "SSL",
                "ssl.ca.location": self.authority.ca,
                "ssl.certificate.location": certificate,
                "ssl.key.location": key,
            }
        common = {
            "bootstrap.servers": self.cluster.addresses("LOGIN"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.ca,
            "sasl.mechanism": way,
        }
        if way == OAUTH:
            return {
                **common,
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": self.tokens.secrets[user],
                "sasl.oauthbearer.token.endpoint.url": self.tokens.token_url,
            }
        return {**common, "sasl.username": user, "sasl.password": PASSWORDS[user]}

    def kafka_python_config(self, way: str, user: str = ALLOWED) -> dict[str, Any]:
        """Return how kafka-python logs in."""
        if way != OAUTH:
            return kafka_python_settings(self.config(way, user))
        return {
            "bootstrap_servers": self.cluster.addresses("LOGIN"),
            "security_protocol": "SASL_SSL",
            "ssl_cafile": self.authority.ca,
            "sasl_mechanism": way,
            "sasl_oauth_token_provider": Tokens(self.tokens.token_url, user, self.tokens.secrets[user]),
        }

    def principal(self, way: str, user: str) -> str:
        """Return as whom brokers know a user."""
        return f"User:CN={user}" if way == CERTIFICATE else f"User:{user}"

    def set_password(self, user: str, password: str) -> None:
        """Give a user another password for both kinds of SCRAM; returns when brokers know it."""
        kinds = (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)
        make_users(self.admin, {user: password}, *kinds)
        login: Any = {**self.config(SCRAM_512, user), "sasl.password": password, "log_level": "0"}

        def is_known() -> bool:
            try:
                AdminClient(login).list_topics(timeout=2.0)
            except KafkaException:
                return False
            return True

        wait_until(is_known, "brokers know the password")

    def use_certificate(self, listener: str, days: int = 2) -> None:
        """Give brokers a new certificate, while they run, for one listener; returns when they show it."""
        store = keystore(self.authority, days)
        prefix = f"listener.name.{listener.lower()}.ssl.keystore."
        settings = [
            ConfigEntry(f"{prefix}{name}", value, incremental_operation=AlterConfigOpType.SET)
            for name, value in (("location", str(store)), ("type", "PEM"))
        ]
        broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=settings)
        self.admin.incremental_alter_configs([broker])[broker].result(LIMIT_S)
        host, _, port = self.cluster.addresses(listener).rpartition(":")

        def shows_it() -> bool:
            return ssl.get_server_certificate((host, int(port))).strip() in store.read_text()

        # Each network thread has a context of its own, is told in turn, and takes each so many-th connection.
        wait_until(lambda: all(shows_it() for _ in range(_CONNECTIONS)), "brokers show their new certificate")

    @contextlib.contextmanager
    def denied(self, way: str, kind: str, name: str, operation: str) -> Iterator[None]:
        """Take a right from the one who may do everything; when this begins, brokers know it."""
        rule = (
            ResourceType[kind], name, ResourcePatternType.LITERAL, self.principal(way, ALLOWED), "*",
            AclOperation[operation], AclPermissionType.DENY,
        )  # fmt: skip
        of_rule = AclBindingFilter(*rule)
        are_done(self.admin.create_acls([AclBinding(*rule)]))
        wait_until(lambda: bool(self.admin.describe_acls(of_rule).result(LIMIT_S)), "brokers know the rule")
        try:
            yield
        finally:
            are_done(self.admin.delete_acls([of_rule]))
            wait_until(lambda: not self.admin.describe_acls(of_rule).result(LIMIT_S), "the rule is gone")

    def allow(self, principals: Iterable[str], *rights: tuple[str, str, Iterable[str]]) -> None:
        """Give rights: kind and name of a resource (``*``: all), and operations."""
        bindings = [
            AclBinding(
                ResourceType[kind], name, ResourcePatternType.LITERAL, who, "*",
                AclOperation[operation], AclPermissionType.ALLOW,
            )
            for who in principals
            for kind, name, operations in rights
            for operation in operations
        ]  # fmt: skip
        are_done(self.admin.create_acls(bindings))


def are_done(asked: Mapping[Any, Future[Any]]) -> None:
    """Wait for what an admin client was asked for, and fail with the first that has failed."""
    for each in asked.values():
        each.result(LIMIT_S)


def make_users(admin: AdminClient, passwords: Mapping[str, str], *kinds: Any) -> None:
    """Give users passwords for these kinds of SCRAM."""
    for kind in kinds:
        info = ScramCredentialInfo(kind, 4096)
        for user, password in passwords.items():
            wanted = UserScramCredentialUpsertion(user, info, password.encode())
            are_done(admin.alter_user_scram_credentials([wanted]))


def keystore(authority: Authority, days: int = 2) -> Path:
    """Make a certificate for brokers, and return a file that has it and its key as Kafka reads them."""
    certificate, key = authority.issue("broker", days=days)
    store = authority.directory / f"broker-{time.monotonic_ns()}.store"
    store.write_text("".join(Path(each).read_text() for each in (key, certificate, authority.ca)))
    return store


def start_world(
    own_kafka_cluster: Callable[..., KafkaCluster], authority: Authority, tokens: TokenServer
) -> World:
    """Start the cluster, and make its users."""
    for user in PASSWORDS:
        authority.issue(user)
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    login, certs, store = "listener.name.login.", "listener.name.certs.", keystore(authority)
    oauth = f"{_KAFKA}.oauthbearer.OAuthBearer"
    cluster = own_kafka_cluster(
        brokers=1,
        listeners={"LOGIN": "SASL_SSL", "CERTS": "SSL"},
        broker_config={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            f"{login}sasl.enabled.mechanisms": f"{SCRAM_512},{SCRAM_256},{PLAIN},{OAUTH}",
            f"{login}scram-sha-512.sasl.jaas.config": f"{_KAFKA}.scram.ScramLoginModule required;",
            f"{login}scram-sha-256.sasl.jaas.config": f"{_KAFKA}.scram.ScramLoginModule required;",
            f"{login}plain.sasl.jaas.config": f"{_KAFKA}.plain.PlainLoginModule required {users};",
            f"{login}oauthbearer.sasl.jaas.config": f"{oauth}LoginModule required;",
            f"{login}oauthbearer.sasl.server.callback.handler.class": f"{oauth}ValidatorCallbackHandler",
            f"{login}sasl.oauthbearer.jwks.endpoint.url": tokens.keys_url,
            f"{login}sasl.oauthbearer.expected.audience": _AUDIENCE,
            f"{certs}ssl.client.auth": "required",
            f"{certs}ssl.truststore.type": "PEM",
            f"{certs}ssl.truststore.location": authority.ca,
            **{f"{each}ssl.keystore.type": "PEM" for each in (login, certs)},
            **{f"{each}ssl.keystore.location": str(store) for each in (login, certs)},
        },
    )
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    world = World(cluster, authority, tokens, admin)
    for user, password in PASSWORDS.items():
        world.set_password(user, password)
    everything = (
        ("TOPIC", "*", ("ALL",)), ("GROUP", "*", ("ALL",)), ("TRANSACTIONAL_ID", "*", ("ALL",)),
        ("BROKER", "kafka-cluster", ("ALL",)),
    )  # fmt: skip
    world.allow({world.principal(way, ALLOWED) for way in WAYS}, *everything)
    cluster.create_topic("orders", 3)
    return world


def java_options(tokens: TokenServer) -> str:
    """Return what a broker's JVM must be told so that it asks this token server for its keys."""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.keys_url}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# -- roles ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def tracking(config: Mapping[str, str], prefix: str = "kpe.") -> Iterator[Tracker]:
    tracker = Tracker(config, prefix=prefix)
    stop = threading.Event()
    thread = threading.Thread(target=tracker.run, args=(stop,))
    thread.start()
    try:
        yield tracker
    finally:
        stop.set()
        thread.join(40)
        assert not thread.is_alive()


@contextlib.contextmanager
def agent(world: World, user: str) -> Iterator[ConsumerAgent]:
    with ConsumerAgent(ControlLink(world.config(SCRAM_512, user)), user, "billing") as made:
        yield made


def observing(world: World, way: str, directory: Path, password: Path | None = None) -> Service:
    """Return an observer that logs in so, with a configuration and an outbox of its own."""
    config = world.config(way)
    if password is not None:
        config["sasl.password_file"] = str(password)
        del config["sasl.password"]
    client = "confluent-kafka" if way == OAUTH else "kafka-python"
    file = observer_file(config, directory / f"{way}.secret", f'client = "{client}"\n')
    return Service(load_config(file, {}).settings)


def is_ready(observer: Service) -> bool:
    return observer.why_not_ready() is None


def has_delivered(observer: Service) -> bool:
    return any(delivery.delivered for _, delivery in observer._runner.stats().values())
