"""What operators did to an observer, and who was elected: JSON lines in a file beside the outbox.

A file, because commands and the service are processes of their own, and what an auditor wants is one place.
Each line is on the disk before the act begins: what can't be written down is not done. Only the service goes
on without, since watching matters more.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import re
import socket
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.log import AUDIT, get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.observe.config import Config
from kafka_partition_events.outbox.sqlite_file import private

_OPTIONS: Final = re.compile(r"-X|--control-option")
_NOBODY: Final = 2**32 - 1
_LONGEST: Final = 500

_log = get_logger(AUDIT)


class AuditTrail:
    """The trail of one outbox. Several processes may write it at once."""

    def __init__(self, outbox: str | Path, *, clock: Clock) -> None:
        """Nothing is written yet.

        Args:
            outbox: The outbox's path. The trail is beside it, ``NAME.audit.jsonl``, and has its owner.
            clock: Tells when.
        """
        self._outbox, self._clock = Path(outbox), clock
        self.path = self._outbox.with_name(f"{self._outbox.name}.audit.jsonl")

    @contextlib.contextmanager
    def act(self, action: str, **facts: Any) -> Iterator[dict[str, Any]]:
        """Write down what is about to be done, and how it ended. What is put into the result is told, too.

        Raises:
            OutboxError: it can't be written down.
        """
        of = {"action": action, "act": uuid.uuid4().hex[:12]}
        self._write({**of, "outcome": "begun", **facts})
        found: dict[str, Any] = {}
        try:
            yield found
        except BaseException as error:
            self._try({**of, "outcome": "failed", **found, "error": str(error) or repr(error)})
            raise
        self._try({**of, "outcome": "done", **found})

    def note(self, action: str, **facts: Any) -> None:
        """Write down and log what has happened in the service. Never raises."""
        _log.info(action, **facts)
        self._try({"action": action, "outcome": "done", **facts})

    def _try(self, facts: dict[str, Any]) -> None:
        try:
            self._write(facts)
        except OutboxError as error:
            _log.error("audit_not_written", action=facts["action"], error=str(error))

    def _write(self, facts: dict[str, Any]) -> None:
        line = {
            "time": self._clock.now().isoformat(),
            **facts,
            "who": _who(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "argv": shown_arguments(sys.argv),
        }
        try:
            with open(self.path, "ab+", opener=private) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._give_to_owner(file.fileno())
                torn = file.tell() > 0 and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n"
                file.write(b"\n" * torn + json.dumps(line, default=str).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutboxError(
                f"{self.path}: what is done can't be written down: {error.strerror or error}; "
                "give this user the right to write it, and make room"
            ) from error

    def _give_to_owner(self, file: int) -> None:
        """Let the service go on with what root has begun."""
        if os.geteuid() == 0:
            with contextlib.suppress(FileNotFoundError):
                owner = self._outbox.stat()
                os.fchown(file, owner.st_uid, owner.st_gid)


def shown_arguments(arguments: Sequence[str]) -> list[str]:
    """Return a command line without the values of ``-X``, which are never shown."""
    shown, is_value = [], False
    for word in arguments:
        option = None if is_value else _OPTIONS.match(word)
        if is_value:
            shown.append(_without_value(word))
        elif option is None or word == option[0]:
            shown.append(word[:_LONGEST])
        else:
            head = word[: option.end() + word.startswith("=", option.end())]
            shown.append(head + _without_value(word[len(head) :]))
        is_value = option is not None and word == option[0]
    return shown


def _without_value(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}=***" if equals else "***"


def in_force(config: Config) -> dict[str, Any]:
    """Return what a trail has of a configuration: what somebody has set, and a digest of all. No secrets."""
    return {"digest": digest_of((v.key, v.value) for v in config.values)} | {
        "set": [
            {"key": value.key, "value": value.value, "origin": value.origin}
            for value in config.values
            if value.origin != "default"
        ]
    }


def digest_of(values: Iterable[tuple[str, str]]) -> str:
    """Return a digest of settings as they may be shown: two services with the same one are set alike."""
    return hashlib.sha256(json.dumps(sorted(values)).encode()).hexdigest()


def _who() -> dict[str, Any]:
    """Return who runs this. The login stays the same under sudo; only root can change it."""
    login = None
    with contextlib.suppress(OSError, ValueError):
        login = int(Path("/proc/self/loginuid").read_text(encoding="ascii"))
    if login == _NOBODY:
        login = None
    return {"uid": os.getuid(), "user": _name(os.getuid()), "login_uid": login, "login_user": _name(login)}


def _name(uid: int | None) -> str | None:
    try:
        return None if uid is None else pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
