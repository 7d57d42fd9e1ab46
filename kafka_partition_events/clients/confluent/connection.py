"""The source's own connection: made from the user's settings, and able to say why it fails."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.librdkafka import connecting, login_of
from kafka_partition_events.clients.rights import lacking
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.process import OwnProcess, forget_in_children, leak

COORDINATED_S: Final = 3_600.0
"""The ``request_timeout`` of whatever the coordinator of a group answers: the longest that there is.

Wait for the future as long as you like, then close the connection. librdkafka (up to 2.16) aborts the process
if it learns of the coordinator after that time: confluentinc/librdkafka#4605 and #5397.
"""

_CAUSES = ("_AUTHENTICATION", "_SSL", "_RESOLVE", "_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN")
"""Error names, the cause that says most first: a wrong password also makes all brokers "down"."""

_OF_LOGINS = frozenset({"_AUTHENTICATION", "_SSL"})

_HUNG_UP = "the brokers accept connections and give no answer: does security.protocol fit their listener?"
"""What it means if "down" is all that is said: a connection that is accepted and closed is no error."""

_FIRST_PATIENCE_S = 1.0
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # noqa: SLF001 - librdkafka's public names


def asking_around(ask: Callable[[float], Any], deadline: float) -> Any:
    """Return what ``ask(seconds)`` returns, which is called again when there was no answer in that time.

    librdkafka asks some broker that it is connected to, which may be one that hangs; the next time it may be
    another. First for 1 s, then twice as long each time, until the deadline (`time.monotonic`).

    Raises:
        KafkaException: as ``ask`` does, the last time.
    """
    patience = _FIRST_PATIENCE_S
    while True:
        left = time_left(deadline)
        try:
            return ask(min(patience, left))
        except KafkaException as error:
            if patience >= left or error.args[0].code() not in _NO_ANSWER:
                raise
        patience *= 2


def time_left(deadline: float) -> float:
    """Return the seconds that are left; never zero or less, which some calls take for "no limit"."""
    return max(0.05, deadline - time.monotonic())


class Connection:
    """An `AdminClient` and the last thing it complained about. One thread at a time.

    After a failure it is made again if a password or a certificate was replaced in its file meanwhile.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Connect in the background; nothing is asked yet.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self.config = config
        self._login: object = None
        self._complaints: dict[str, str] = {}
        self._worked = False
        self._admin: AdminClient | None = None
        self._process = OwnProcess("connection")
        forget_in_children(self, Connection._forget)
        self.admin()

    def _forget(self) -> None:
        """Leave the client to the parent, in a forked child."""
        leak(self._admin)

    def admin(self) -> AdminClient:
        """Return the client, and serve its callbacks.

        Raises:
            ForkedError: the connection was made before a fork.
        """
        self._process.check()
        if self._admin is None:
            complaints = self._complaints = {}

            def note(error: KafkaError) -> None:
                complaints[error.name()] = error.str()

            self._login = login_of(self.config)
            # A broker that is down is no news for stderr.
            quietly = {"log_level": 2, **connecting(self.config)}
            settings = {**quietly, "allow.auto.create.topics": False, "error_cb": note}
            if (logger := self.config.get("logger")) is not None:  # else librdkafka writes to stderr
                settings["logger"] = logger
            try:
                self._admin = AdminClient(settings)
            except KafkaException as error:
                why = error.args[0].str()
                raise ConfigurationError(f"librdkafka refuses the connection settings: {why}") from error
        self._admin.poll(0)
        return self._admin

    def failure(self, what: str, error: BaseException, *needed: Right) -> MetadataFetchError:
        """Return the exception to be raised, with the cause that only librdkafka's error callback has.

        With a wrong password or a missing CA the failed call itself says nothing but ``_TRANSPORT``. Where
        brokers refuse, the rights that are ``needed`` are named.
        """
        self.admin()  # the callbacks of this failure may still wait to be served
        code = error.args[0].name() if isinstance(error, KafkaException) else ""
        if (refused := lacking(code, needed, self.config)) is not None:
            return MetadataFetchError(f"{what}: {refused}")
        complaints = self._complaints
        cause = next((f"{name}: {complaints[name]}" for name in _CAUSES if name in complaints), None)
        if not self._worked and set(complaints) == {"_ALL_BROKERS_DOWN"}:
            cause = _HUNG_UP
        if login_of(self.config) != self._login:
            self._renew()
        return MetadataFetchError(f"{what}: {_text(error)}" + (f" (cause: {cause})" if cause else ""))

    def _renew(self) -> None:
        """Connect again; where librdkafka refuses that (half of a pair was replaced), go on as before."""
        kept = self._admin, self._login, self._complaints
        self._admin = None
        try:
            self.admin()
        except ConfigurationError:
            self._admin, self._login, self._complaints = kept
        else:
            _close(kept[0])

    def succeeded(self) -> None:
        """Forget complaints: they explain nothing that comes later."""
        self._worked = True
        self._complaints.clear()

    def close(self) -> None:
        """Close the connections, and give up whatever is still asked; `admin` connects again.

        The client is destroyed here and now: if librdkafka's own thread did, by a garbage collection, the
        process would abort.
        """
        admin, self._admin = self._admin, None
        if not self._process.is_another:
            _close(admin)


class Login:
    """The login that a client was made with: what brokers say against it, and whether it was replaced since.

    A consumer's or producer's calls only say that no broker answers. Thread-safe.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Remember the login of a client's settings; make one right before the client."""
        self.refusal: KafkaError | None = None  # what was said last
        self._config = config
        self._made_with = login_of(config)

    def note(self, error: KafkaError) -> None:
        """Take note of an error; this is an ``error_cb``."""
        if error.name() in _OF_LOGINS:
            self.refusal = error

    def check(self) -> None:
        """Raise if the client had better be made again: its login was refused, and replaced since.

        Raises:
            KafkaException: with the refusal.
        """
        if self.refusal is not None and login_of(self._config) != self._made_with:
            raise KafkaException(self.refusal)


def _close(admin: AdminClient | None) -> None:
    if admin is not None:
        admin.__exit__(None, None, None)


def _text(error: BaseException) -> str:
    if isinstance(error, KafkaException):
        return str(error.args[0].str())
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__
