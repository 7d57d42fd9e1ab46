"""A sink that sends entries by e-mail."""

import io
import smtplib
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.outbox import DeliveryError, Entry, Stream
from kafka_partition_events_listeners.mail.message import address_in, message_of
from kafka_partition_events_listeners.redaction import fields_of, redacted

PORTS: Final[Mapping[str, int]] = {"starttls": 587, "tls": 465, "none": 25}
"""The port of each kind of security (RFC 6409, RFC 8314, RFC 5321)."""

BATCH: Final = 10
"""How many messages a session takes."""

REFUSED_AFTER: Final = 3
"""How often a server must decline a message before it is not tried again."""

_PERMANENT: Final = 500
_TOO_LARGE: Final = 552
_LONGEST_ANSWER: Final = 200

_log = get_logger(__name__)


class SmtpSink:
    """Sends entries as e-mails, a message for each, see `message_of`.

    A message is delivered when the server has taken it for all recipients. Those that it takes for a while
    only not (4xx) are tried again, without those who have it. Who is refused for good (5xx) misses it and is
    logged; if that is everybody, something is wrong with the configuration, and the queue waits for somebody
    to mend it, as it does after a refused login or sender. A message that is declined for what it is (5xx
    after its text, or 552: it is too large) is refused the third time. At least once: what is sent again has
    the same ``Message-ID``.

    The password is told to nobody but the server, and to that over TLS only. There is no falling back to a
    connection without it.

    Implements `Sink`: one thread at a time.
    """

    def __init__(
        self,
        host: str,
        *,
        sender: str,
        to: Sequence[str],
        name: str = "smtp",
        port: int | None = None,
        security: str = "starttls",
        ca_file: str | None = None,
        username: str | None = None,
        password: str | None = None,
        runbook_url: str | None = None,
        timeout: float = 10.0,
        redact: Iterable[str] = (),
        clock: Clock | None = None,
    ) -> None:
        """Make a sink; nothing is connected to yet.

        Args:
            host: The server that takes messages.
            sender: The mailbox they come from, such as ``Kafka <kafka@example.com>``.
            to: The mailboxes they go to.
            name: How configuration, metrics and logs call it.
            port: By default what `PORTS` has for ``security``.
            security: ``"starttls"``, ``"tls"`` from the first byte on, or ``"none"``.
            ca_file: The authorities that may have signed the server's certificate, in a PEM file; by default
                those of the system.
            username: To log in with; by default nobody logs in.
            password: The same.
            runbook_url: Where it is written what to do: a line in each message.
            timeout: Seconds to connect to an address, then until it is greeted and logged in, then for each
                message, however many answers that takes.
            redact: What is left out of messages, as of a `WebhookSink`.
            clock: Tells the date of a message; the system's by default.

        Raises:
            ConfigurationError: an argument is of no use; the message names it.
        """
        if security not in PORTS:
            raise ConfigurationError(f"security must be one of {', '.join(PORTS)}, not {security!r}")
        if not to:
            raise ConfigurationError("to must name at least one address")
        if (username is None) != (password is None):
            raise ConfigurationError("username and password go together: set both, or none")
        if username is not None and security == "none":
            raise ConfigurationError(
                'a login needs security = "starttls" or "tls": else others can read the password on its way'
            )
        if timeout <= 0:
            raise ConfigurationError(f"timeout must be more than 0 seconds, not {timeout}")
        self.name = name
        self.stream = Stream.INCIDENTS
        self.batch = BATCH
        self._host, self._port = host, port or PORTS[security]
        self._security, self._tls = security, _tls(ca_file)
        self._username, self._password = username, password
        self._sender, self._to = sender, tuple(to)
        self._from, self._recipients = address_in(sender), tuple(map(address_in, to))
        self._runbook_url = runbook_url
        self._timeout = timeout
        self._left_out = fields_of(redact)
        self._clock: Clock = clock or SystemClock()
        self._had: tuple[str, frozenset[str]] = ("", frozenset())  # an entry, and who has it already
        self._declined = ("", 0)

    def __repr__(self) -> str:
        return f"SmtpSink({self._host!r}, port={self._port}, name={self.name!r})"

    def deliver(self, entries: Sequence[Entry], /) -> None:
        """Send entries in order, in one session.

        Raises:
            DeliveryError: not all were taken. Its reason is ``smtp_`` and the server's code, ``auth``,
                ``tls``, ``timeout`` or ``connect``.
        """
        delivered = 0
        try:
            with self._session() as session:
                for entry in entries:
                    self._send(session, entry)
                    delivered += 1
        except DeliveryError as error:
            error.delivered = delivered
            raise
        except (smtplib.SMTPException, OSError) as error:
            raise self._failure(error, delivered) from None

    def close(self) -> None:
        """Do nothing: a session is closed after each delivery."""

    # -- a session -------------------------------------------------------------------------------------

    @contextmanager
    def _session(self) -> "Iterator[_Session]":
        tls = self._tls if self._security == "tls" else None
        session = _Session(self._host, self._port, timeout=self._timeout, tls=tls)
        try:
            if self._security == "starttls":
                session.starttls(context=self._tls)
            if self._username is not None and self._password is not None:
                session.login(self._username, self._password)
            yield session
            session.begin()
            with suppress(smtplib.SMTPException, OSError):  # all that was to be said was said
                session.quit()
        finally:
            session.close()

    def _send(self, session: "_Session", entry: Entry) -> None:
        session.begin()
        message = self._written(entry)
        id_, had = self._had
        had = had if id_ == entry.id else frozenset()
        missing = [address for address in dict.fromkeys(self._recipients) if address not in had]
        try:
            refused = session.sendmail(self._from, missing, message)
            had |= {address for address in missing if address not in refused}
        except smtplib.SMTPRecipientsRefused as error:  # all of them
            refused = error.recipients
        except (smtplib.SMTPDataError, smtplib.SMTPSenderRefused) as error:
            raise self._declination(error, entry) from None
        self._had = entry.id, had
        self._look_at(refused, had)

    def _written(self, entry: Entry) -> bytes:
        try:
            return message_of(
                redacted(entry, self._left_out),
                sender=self._sender,
                to=self._to,
                now=self._clock.now(),
                runbook_url=self._runbook_url,
            ).as_bytes()
        except Exception as error:  # an event that can't be told: the next one may do
            raise DeliveryError(
                f"{self.name}: {entry.name} can't be written: {error!r}", reason="format", refused=True
            ) from error

    def _look_at(self, refused: Mapping[str, tuple[int, bytes]], had: frozenset[str]) -> None:
        """Tell whether a message is delivered, as far as that can be.

        Raises:
            DeliveryError: it is not.
        """
        later = {address: answer for address, answer in refused.items() if answer[0] < _PERMANENT}
        if later or (refused and not had):
            address, (code, text) = next(iter((later or refused).items()))
            cure = "" if later else "; look at the addresses in to, and whether the server relays to them"
            raise DeliveryError(
                f"{self._told(code, text)}, of {address}{cure}", reason=f"smtp_{code}"
            ) from None
        for address, (code, text) in refused.items():
            _log.warning("recipient_refused", sink=self.name, to=address, answer=_answer(code, text))

    # -- failures --------------------------------------------------------------------------------------

    def _declination(self, error: smtplib.SMTPResponseException, entry: Entry) -> DeliveryError:
        of_the_sender = isinstance(error, smtplib.SMTPSenderRefused) and error.smtp_code != _TOO_LARGE
        cure = "; look at sender, and at the rights of the login" if of_the_sender else ""
        permanent = error.smtp_code >= _PERMANENT and not of_the_sender
        return DeliveryError(
            self._told(error.smtp_code, error.smtp_error) + cure,
            reason=f"smtp_{error.smtp_code}",
            refused=permanent and self._times_declined(entry) >= REFUSED_AFTER,
        )

    def _times_declined(self, entry: Entry) -> int:
        id_, times = self._declined
        self._declined = (entry.id, times + 1 if id_ == entry.id else 1)
        return self._declined[1]

    def _failure(self, error: Exception, delivered: int) -> DeliveryError:
        where = f"{self.name}: {self._host}:{self._port}"
        match error:
            case smtplib.SMTPAuthenticationError():
                reason, told = "auth", f"{where} refuses the login; look at username and password"
            case smtplib.SMTPNotSupportedError():
                reason = "tls" if "STARTTLS" in str(error) else "auth"
                what = "STARTTLS" if reason == "tls" else "a login"
                told = f"{where} does not offer {what}; look at security and port"
            case smtplib.SMTPResponseException():
                reason, told = f"smtp_{error.smtp_code}", self._told(error.smtp_code, error.smtp_error)
            case ssl.SSLError():
                cause = getattr(error, "verify_message", None) or error.reason or "no TLS there"
                reason, told = "tls", f"{where}: {cause}; look at security, port, host and ca_file"
            case _ if _timed_out(error):
                reason, told = "timeout", f"{where} did not answer within {self._timeout:g} s"
            case _:
                reason, told = "connect", f"{where}: {getattr(error, 'strerror', None) or error}"
        return DeliveryError(told, reason=reason, delivered=delivered)

    def _told(self, code: int, text: bytes | str) -> str:
        return f"{self.name}: {self._host}:{self._port} answered {_answer(code, text)}"


class _Session(smtplib.SMTP):
    """A session whose parts have an end: smtplib's time-out is for one read, and a server may trickle."""

    def __init__(self, host: str, port: int, *, timeout: float, tls: ssl.SSLContext | None) -> None:
        """Connect, and wait to be greeted; ``tls`` is for TLS from the first byte on."""
        self._step, self._tls = timeout, tls
        super().__init__(host, port, timeout=timeout)

    def begin(self) -> None:
        """Begin a part that may take as long as the time-out."""
        self._until = time.monotonic() + self._step

    def timed(self) -> socket.socket:
        """Return the connection, of which the next read or write takes at most what is left of this part.

        Raises:
            TimeoutError: nothing is left.
            SMTPServerDisconnected: it is closed.
        """
        if (left := self._until - time.monotonic()) <= 0:
            raise TimeoutError("the time for this part of the session is over")
        if self.sock is None:
            raise smtplib.SMTPServerDisconnected("the session is closed")
        self.sock.settimeout(left)
        return self.sock

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Connect; smtplib's own hook, by which its class for TLS differs from the other one."""
        connected = socket.create_connection((host, port), timeout)
        self.begin()
        return connected if self._tls is None else self._tls.wrap_socket(connected, server_hostname=host)

    def send(self, s: Any) -> None:
        self.timed()
        super().send(s)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None:  # at the beginning, and after STARTTLS
            self.file = io.BufferedReader(_Answers(self))
        return super().getreply()


class _Answers(io.RawIOBase):
    """What the server says in a session, byte by byte if it likes, but in time."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        return self._session.timed().recv_into(buffer)


def _timed_out(error: BaseException) -> bool:
    """Tell whether an error is a time-out, of which smtplib may have made an error of its own."""
    return isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError)


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    return f"{code} {' '.join(words.split())}"[:_LONGEST_ANSWER]


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise ConfigurationError(f"ca_file: {ca_file}: there are no certificates in PEM") from None
    except OSError as error:
        raise ConfigurationError(f"ca_file: {ca_file}: {error.strerror}") from None
