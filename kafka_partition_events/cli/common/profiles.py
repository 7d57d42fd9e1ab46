"""Profiles: configuration files that are known by a name, and the one that is in use."""

import os
import re
from pathlib import Path
from typing import Final

from kafka_partition_events.cli.common.errors import CliError

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_SUFFIX: Final = ".toml"
_IN_USE: Final = "in-use"


def directory() -> Path:
    """Return where profiles are: ``kpe`` in $XDG_CONFIG_HOME, by default in ``~/.config``.

    Raises:
        CliError: this user has no home.
    """
    home = os.environ.get("XDG_CONFIG_HOME")
    try:
        return Path(home or Path.home() / ".config") / "kpe"
    except RuntimeError:
        raise CliError("profiles are in ~/.config/kpe, and this user has no home") from None


def path_of(name: str) -> Path:
    """Return the file of a profile.

    Raises:
        CliError: that is no name, or there is no such profile.
    """
    if not _NAME.fullmatch(name):
        raise CliError(f"{name!r} is no profile's name; write letters, digits, '.', '_' and '-'")
    path = directory() / f"{name}{_SUFFIX}"
    if not path.is_file():
        raise CliError(f"there is no profile {name}: {path} would be its file; see `kpe profile ls`")
    return path


def names() -> list[str]:
    """Return the names of all profiles."""
    return sorted(path.stem for path in directory().glob(f"*{_SUFFIX}") if _NAME.fullmatch(path.stem))


def in_use() -> str | None:
    """Return the name of the profile in use, if there is one."""
    try:
        return (directory() / _IN_USE).read_text(encoding="utf-8").strip() or None
    except (CliError, OSError, UnicodeDecodeError):
        return None


def use(name: str | None) -> None:
    """Use a profile from now on; None: use none.

    Raises:
        CliError: there is no such profile, or that can't be remembered.
    """
    if name is not None:
        path_of(name)
    mark = directory() / _IN_USE
    try:
        if name is None:
            mark.unlink(missing_ok=True)
        else:
            mark.write_text(f"{name}\n", encoding="utf-8")
    except OSError as error:
        raise CliError(f"{mark}: {error.strerror or error}") from error


def chosen(file: str | None, profile: str | None, *, implied: bool = True) -> Path | None:
    """Return the file that is meant, if any.

    Args:
        file: Its path, as it is given.
        profile: The name of a profile, as it is given.
        implied: Whether the profile in use is meant where nothing is given.

    Raises:
        CliError: both are given, or there is no such profile.
    """
    if file is not None and profile is not None:
        raise CliError(
            "--config (or KPE_CONFIG) names a file and --profile (or KPE_PROFILE) another; give one"
        )
    if file is not None:
        return Path(file)
    name = (
        in_use() if profile is None and implied else profile
    )  # "" is a variable that is not set, and no name
    return None if name is None else path_of(name)
