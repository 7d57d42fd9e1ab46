"""How an entry is written as an e-mail. Pure.

Source: RFC 5322, section 3.6.4 (identification fields); RFC 3834, section 5 (``Auto-Submitted``).
"""

import re
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Final

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.webhook.alerts import subject_of
from kafka_partition_events_listeners.webhook.wording import (
    News,
    affected,
    clipped,
    details,
    fitting,
    headline,
    read,
    sentences,
)

_ADDRESS: Final = re.compile(r"[!-?A-~]+@[A-Za-z0-9.-]+")
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_SUBJECT: Final = 200
_LONGEST_LIST: Final = 20_000


def address_in(mailbox: str) -> str:
    """Return the address in a mailbox such as ``NOC <noc@example.com>``, or one by itself.

    Raises:
        ConfigurationError: there is none, or it is not of ASCII only.
    """
    _, address = parseaddr(mailbox)
    if not mailbox.isprintable() or _ADDRESS.fullmatch(address) is None:
        raise ConfigurationError(f"{mailbox!r} is no e-mail address, such as noc@example.com")
    return address


def message_of(
    entry: Entry, *, sender: str, to: Sequence[str], now: datetime, runbook_url: str | None = None
) -> EmailMessage:
    """Return an entry as a message.

    Its ``Message-ID`` is made of the entry's id: what is sent again is known as a double. All messages of an
    incident refer to one that nobody has sent, so readers show them as one thread, whichever come.

    Args:
        entry: The entry.
        sender: The mailbox it comes from.
        to: The mailboxes it goes to.
        now: When it is sent, an aware time.
        runbook_url: Where it is written what to do.
    """
    news = read(entry)
    domain = address_in(sender).rpartition("@")[2]
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = ", ".join(to)
    message["Subject"] = clipped(_one_line(f"{headline(news)} ({news.cluster})"), _LONGEST_SUBJECT)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = _identified(entry.id, domain)
    if (subject := subject_of(news)) is not None:
        root = _identified(f"thread.{subject}", domain)
        message["In-Reply-To"] = root
        message["References"] = root
    message["Auto-Submitted"] = "auto-generated"
    # Lines of any length, in any alphabet, whatever the servers on the way can do.
    message.set_content(_text(news, runbook_url), cte="quoted-printable")
    return message


def _identified(id_: str, domain: str) -> str:
    return f"<{_NOT_IN_IDS.sub('-', id_)}@{domain}>"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _text(news: News, runbook_url: str | None) -> str:
    parts = [
        [headline(news), *sentences(news)],
        [f"  {line}" for line in fitting(affected(news), _LONGEST_LIST)],
        details(news),
        [] if runbook_url is None else [f"What to do: {runbook_url}"],
        [f"cluster {news.cluster}, {news.name}, {subject_of(news) or news.event['id']}"],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"
