"""A real SMTP server on loopback that takes messages, or answers as it is told to."""

import email
import ssl
import threading
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import default
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword
from attrs import frozen

from kafka_partition_events.testing.ports import free_ports

LOGIN = LoginPassword(b"kpe", b"s3cret")
TAKEN = "250 OK"


@frozen
class Mail:
    """A message as it came, and who it is for."""

    sender: str
    to: tuple[str, ...]
    message: EmailMessage
    secured: bool
    logged_in: bool


class SmtpReceiver:
    """Keeps what it takes. ``refusals`` are its answers to recipients, ``answers`` those to whole messages.

    An answer to a message is given once, the last one again and again.
    """

    def __init__(
        self,
        *answers: str,
        refusals: Mapping[str, str] | None = None,
        sender: str = TAKEN,
        context: ssl.SSLContext | None = None,
        starttls: bool = True,
        login: bool = False,
        limit: int | None = None,
    ) -> None:
        self._answers = list(answers) or [TAKEN]
        self._sender = sender
        self.refusals = dict(refusals or {})
        self._arrived = threading.Condition()
        self._mails: list[Mail] = []
        self.sessions = 0
        (self.port,) = free_ports(1)
        options: dict[str, Any] = {"data_size_limit": limit}
        if context is not None and starttls:
            options |= {"tls_context": context, "require_starttls": True}
        if login:
            options |= {
                "authenticator": _authenticated,
                "auth_required": True,
                "auth_require_tls": starttls,  # it takes TLS from the first byte on for none
            }
        self._controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            ssl_context=None if starttls else context,
            **options,
        )

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._controller.stop()

    @property
    def mails(self) -> list[Mail]:
        with self._arrived:
            return list(self._mails)

    # -- what aiosmtpd calls ---------------------------------------------------------------------------

    async def handle_EHLO(  # noqa: N802
        self, server: Any, session: Any, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        self.sessions += 1
        session.host_name = hostname
        return responses

    async def handle_MAIL(  # noqa: N802
        self, server: Any, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        return self._sender

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = self.refusals.get(address, TAKEN)
        if answer == TAKEN:
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        with self._arrived:
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            if answer == TAKEN:
                message = email.message_from_bytes(envelope.content, policy=default)
                assert isinstance(message, EmailMessage)
                assert not message.defects
                secured = server.transport.get_extra_info("ssl_object") is not None
                mail = Mail(
                    str(envelope.mail_from),
                    tuple(envelope.rcpt_tos),
                    message,
                    secured,
                    bool(session.authenticated),
                )
                self._mails.append(mail)
                self._arrived.notify_all()
        return answer


def _authenticated(server: Any, session: Any, envelope: Any, mechanism: str, auth_data: Any) -> AuthResult:
    return AuthResult(success=auth_data == LOGIN, handled=False)
