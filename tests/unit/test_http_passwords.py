"""Passwords of `[http.users]`: what is a hash, who is let in, and what it costs to guess."""

import base64
import threading
from pathlib import Path

import pytest

from kafka_partition_events.observe import passwords as module
from kafka_partition_events.observe.passwords import BusyError, PasswordHash, Passwords, hash_password
from tests.config_kit import Writer, text

GOOD = PasswordHash(
    "scrypt$14,8,1$9cVT75ES+G8YR1AOO2xF4g==$eNuog4UXIdUjjuGCwfmzBa36ORNEgGQvFI71ijWKwjE="
)  # of "correct horse"


def test_a_hash_is_of_its_password_only() -> None:
    assert GOOD.is_of(b"correct horse")
    assert not GOOD.is_of(b"correct horse ")
    assert hash_password("correct horse") != GOOD, "salted anew"
    assert hash_password("schlüssel").is_of("schlüssel".encode())


def test_it_is_the_scrypt_of_the_rfc() -> None:
    """RFC 7914, section 12, cut to 32 bytes: whoever has another tool gets the same."""
    salt = base64.b64encode(b"SodiumChloride").decode()
    digest = "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
    expected = base64.b64encode(bytes.fromhex(digest)).decode()
    assert PasswordHash(f"scrypt$14,8,1${salt}${expected}").is_of(b"pleaseletmein")


@pytest.mark.parametrize(
    "wrong",
    [
        "correct horse",
        "$2y$10$abcdefghijklmnopqrstuv",
        GOOD.text.replace("scrypt$14", "scrypt$9"),
        GOOD.text.replace("scrypt$14", "scrypt$18"),
        GOOD.text.replace("14,8,1", "14,32,1"),
        GOOD.text.replace("14,8,1", "14,8,64"),
        GOOD.text[:-1],
        f"{GOOD.text}\n",
    ],
)
def test_what_is_no_hash_or_too_dear_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"hash|work"):
        PasswordHash(wrong)


def test_who_is_known_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    work: list[bytes] = []
    really = PasswordHash.is_of

    def counted(self: PasswordHash, password: bytes) -> bool:
        work.append(password)
        return really(self, password)

    monkeypatch.setattr(PasswordHash, "is_of", counted)
    passwords = Passwords({"prometheus": GOOD})
    assert [passwords.match("prometheus", b"correct horse") for _ in range(3)] == [True] * 3
    assert len(work) == 1
    assert not passwords.match("prometheus", b"wrong")
    assert not passwords.match("nobody", b"correct horse")
    assert len(work) == 3, "who is no user takes as long as a wrong password"
    assert not passwords.match("nobody", b""), "no digest is nobody's digest"


def test_who_guesses_holds_up_strangers_but_nobody_who_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    passwords = Passwords({"prometheus": GOOD})
    assert passwords.match("prometheus", b"correct horse")
    begun, go = threading.Event(), threading.Event()

    def slow(_self: PasswordHash, _password: bytes) -> bool:
        begun.set()
        return go.wait(20)

    monkeypatch.setattr(PasswordHash, "is_of", slow)
    guess = threading.Thread(target=passwords.match, args=("nobody", b"x"))
    guess.start()
    assert begun.wait(20)
    try:
        assert passwords.match("prometheus", b"correct horse")
        with pytest.raises(BusyError):
            passwords.match("prometheus", b"wrong")
    finally:
        go.set()
        guess.join(20)


def test_users_stand_in_the_configuration_and_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "hash").write_text(f"{GOOD.text}\n")
    config = Writer(tmp_path).load(
        f'[http.users]\nprometheus = "{GOOD.text}"\nnoc_file = "{tmp_path}/hash"\n'
    )
    assert config.settings.http.users == {"prometheus": GOOD, "noc": GOOD}
    assert text(config, "http.users.prometheus") == text(config, "http.users.noc") == "***"
    assert GOOD.text not in repr(config)


def test_a_password_in_the_clear_is_refused_and_not_repeated(tmp_path: Path) -> None:
    (problem,) = Writer(tmp_path).problems('[http]\nusers = { prometheus = "hunter2" }\n')
    assert problem == (
        "kpe.toml: http.users.prometheus: *** is not a hash that `kpe config hash-password` makes"
    )
