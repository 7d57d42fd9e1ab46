"""The source's own connection: made from the user's settings, and able to say why it fails."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.certificates import why_brokers_is_refused, why_of_no_use
from kafka_partition_events.clients.librdkafka import connecting, login_of
from kafka_partition_events.clients.rights import lacking
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.metadata.forking import keep_for_ever

COORDINATED_S: Final = 3_600.0
"""The ``request_timeout`` of whatever the coordinator of a group answers: the longest that there is.

Wait for the future as long as you like, and then close the connection. librdkafka (up to 2.16, which is the
latest that was tried) aborts the process if its own time for such a request is over before it knows the
coordinator, and is told of it later: confluentinc/librdkafka#4605 and #5397.
"""

_TELLING = ("_AUTHENTICATION", "_SSL", "_RESOLVE", "_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN")
"""Error names, the most telling cause first: a wrong password also makes all brokers "down"."""

_OF_LOGINS = frozenset({"_AUTHENTICATION", "_SSL"})

_HUNG_UP = "the brokers accept connections and give no answer: does security.protocol fit their listener?"
"""What it means if "down" is all that is told: a connection that is accepted and closed is no error. Brokers
that hang are told alike, if they never answered."""


_FIRST_PATIENCE_S = 1.0
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # noqa: SLF001 - librdkafka's public names


def asking_around(ask: Callable[[float], Any], deadline: float) -> Any:
    """Return what ``ask(seconds)`` returns, which is called again when there was no answer in that time.

    librdkafka asks some broker that it is connected to. One that hangs keeps its connections, so it may be
    that one; the next time it may be another. First for 1 s, then twice as long each time, until the deadline
    (`time.monotonic`).

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
    """Return the seconds that are left. Never zero or less, which some calls take for "no limit"."""
    return max(0.05, deadline - time.monotonic())


class Connection:
    """An `AdminClient` and the last thing it complained about. One thread at a time.

    After a failure it is made anew if a password or a certificate was replaced in its file meanwhile.
    """

    can_describe = True
    may_name_topics = True
    """Whether asking for a topic by name is sure not to create it."""

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
        self._pid = 0
        self.admin()

    def admin(self) -> AdminClient:
        """Return the client, a new one after a fork, and serve its callbacks."""
        if self._admin is None or self._pid != os.getpid():
            if self._admin is not None:
                keep_for_ever(self._admin)
            complaints = self._complaints = {}

            def note(error: KafkaError) -> None:
                complaints[error.name()] = error.str()

            self._login = login_of(self.config)
            self._settings = {
                # A broker that is down is no news for stderr: the cause goes into MetadataFetchError.
                "log_level": 2,
                **connecting(self.config),
                "allow.auto.create.topics": False,
            }
            try:
                settings: dict[str, Any] = {**self._settings, "error_cb": note}
                self._admin = AdminClient(settings)
            except KafkaException as error:
                raise ConfigurationError(
                    f"librdkafka refuses the connection settings: {error.args[0].str()}"
                ) from error
            self._pid = os.getpid()
        self._admin.poll(0)
        return self._admin

    def log_in(self, username: str, password: str) -> None:
        """Use other credentials from the next connection on. Thread-safe."""
        self.config = {**self.config, "sasl.username": username, "sasl.password": password}
        self._login = login_of(self.config)
        admin = self._admin
        if admin is not None and self._pid == os.getpid():
            admin.set_sasl_credentials(username, password)

    def failure(self, what: str, error: BaseException, *needed: Right) -> MetadataFetchError:
        """Return the exception to be raised, with the cause that only librdkafka's error callback tells.

        With a wrong password or a missing CA the failed call itself says nothing but ``_TRANSPORT``.

        Args:
            what: What has failed.
            error: What was raised.
            needed: The rights that it takes, to be named where brokers refuse.
        """
        self.admin()  # the callbacks of this failure may still wait to be served
        if (refused := _refused(error, needed, self.config)) is not None:
            return MetadataFetchError(f"{what}: {refused}")
        cause = next(
            (f"{name}: {self._complaints[name]}" for name in _TELLING if name in self._complaints), None
        )
        if not self._worked and set(self._complaints) == {"_ALL_BROKERS_DOWN"}:
            cause = _HUNG_UP
        told = "; ".join(filter(None, (cause, self._trouble_with_certificates())))
        if login_of(self.config) != self._login:
            self._renew()
        return MetadataFetchError(f"{what}: {_text(error)}" + (f" (cause: {told})" if told else ""))

    def _renew(self) -> None:
        """Connect anew; where librdkafka refuses that (half of a pair was replaced), go on as before."""
        kept = self._admin, self._login, self._settings, self._complaints
        self._admin = None
        try:
            self.admin()
        except ConfigurationError:
            self._admin, self._login, self._settings, self._complaints = kept
        else:
            _close(kept[0])

    def _trouble_with_certificates(self) -> str | None:
        if "certificate verify failed" in self._complaints.get("_SSL", ""):
            return why_brokers_is_refused(self.config)
        return why_of_no_use(self.config, time.time())

    def succeeded(self) -> None:
        """Forget complaints: they explain nothing that comes later."""
        self._worked = True
        self._complaints.clear()

    def close(self) -> None:
        """Close the connections, and give up whatever is still asked; `admin` connects anew.

        The client is destroyed here and now. A traceback may hold it still, and whichever thread runs the
        garbage collection would destroy it: if that is librdkafka's own, it aborts the process.
        """
        admin, self._admin = self._admin, None
        if admin is None:
            return
        if self._pid != os.getpid():
            keep_for_ever(admin)
        else:
            _close(admin)


class Login:
    """The login that a client was made with: what brokers say against it, and whether it was replaced since.

    A consumer's or producer's calls only say that nobody answers. Thread-safe.

    Attributes:
        refusal: What was said last; None if nothing was.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Remember it; make one right before the client.

        Args:
            config: How the client connects.
        """
        self.refusal: KafkaError | None = None
        self._config = config
        self._made_with = login_of(config)

    def note(self, error: KafkaError) -> None:
        """Take note of an error; this is an ``error_cb``."""
        if error.name() in _OF_LOGINS:
            self.refusal = error

    def check(self) -> None:
        """Raise if the client had better be made anew: its login was refused, and replaced in its file since.

        Raises:
            KafkaException: with the refusal.
        """
        if self.refusal is not None and login_of(self._config) != self._made_with:
            raise KafkaException(self.refusal)


class Borrowed:
    """A client of the user's own, used as it is and left alone. One thread at a time."""

    may_name_topics = False  # its settings are not known, and librdkafka's default is to create

    def __init__(self, handle: Any) -> None:
        """Borrow a ``Producer``, a ``Consumer`` or an ``AdminClient``.

        Raises:
            ConfigurationError: it is nothing of the kind.
        """
        if not hasattr(handle, "list_topics"):
            raise ConfigurationError(
                f"give librdkafka settings or a confluent-kafka client, not a {type(handle).__name__}"
            )
        self.can_describe = isinstance(handle, AdminClient)
        self.config: Mapping[str, Any] | None = None
        self._handle = handle
        self._pid = os.getpid()

    def admin(self) -> Any:
        """Return the client.

        Raises:
            MetadataFetchError: it was made before a fork.
        """
        if self._pid != os.getpid():
            raise MetadataFetchError(
                "this client was made before a fork and does not work in the child process; make a new one"
            )
        return self._handle

    def failure(self, what: str, error: BaseException, *_needed: Right) -> MetadataFetchError:
        """Return the exception to be raised. The cause was told to the client's own ``error_cb``."""
        return MetadataFetchError(f"{what}: {_text(error)}")

    def succeeded(self) -> None:
        """Do nothing; there is nothing to forget."""

    def close(self) -> None:
        """Do nothing; whoever made the client closes it."""


def _close(admin: AdminClient | None) -> None:
    if admin is not None:
        admin.__exit__(None, None, None)


def _refused(error: BaseException, needed: Sequence[Right], config: Mapping[str, Any]) -> str | None:
    return lacking(error.args[0].name(), needed, config) if isinstance(error, KafkaException) else None


def _text(error: BaseException) -> str:
    if isinstance(error, KafkaException):
        return str(error.args[0].str())
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__
