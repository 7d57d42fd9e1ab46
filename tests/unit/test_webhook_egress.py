"""Where a sink may post to, by which way, which files it trusts: what is refused before anything is sent."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events_listeners.webhook.connecting import AddressRefusedError
from kafka_partition_events_listeners.webhook.egress import Egress
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from kafka_partition_events_listeners.webhook.target import CheckedTransport, ProxyRefusedError, check_url
from tests.certificates import Authority

PROXY = "http://10.9.9.9:3128"


# -- networks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.1.2.3", True), ("10.2.0.1", False), ("127.0.0.1", False), ("192.168.1.1", False),
        ("fd00:1::7", True), ("fd00:2::7", False), ("::1", False), ("8.8.8.8", True),
        ("::ffff:10.1.2.3", True), ("::ffff:10.2.0.1", False), ("64:ff9b::a01:203", True),
        ("169.254.169.254", False), ("fe80::1", False), ("168.63.129.16", False),
    ],
)  # fmt: skip
def test_networks_that_are_allowed_are_so_beside_the_public_ones(address: str, allowed: bool) -> None:
    egress = Egress(allow_networks=("10.1.0.0/16", "fd00:1::/32"))
    assert egress.allows(address) is allowed
    transport = CheckedTransport(
        egress,
        resolve=lambda _host, _port: [address],
        inner=httpx.MockTransport(lambda _: httpx.Response(204)),
    )
    request = httpx.Request("POST", "http://pager.example/")
    host = f"[{address}]" if ":" in address else address
    if allowed:
        transport.handle_request(request)
        check_url(f"https://{host}/", egress)
        return
    with pytest.raises(AddressRefusedError):
        transport.handle_request(request)
    with pytest.raises(ConfigurationError, match="url names"):
        check_url(f"https://{host}/", egress)


def test_even_a_network_of_everything_has_no_link_local_address_in_it() -> None:
    everything = Egress(allow_networks=("0.0.0.0/0", "::/0"))
    assert everything.allows("127.0.0.1")
    for address in ("169.254.169.254", "168.63.129.16", "fe80::1", "::ffff:169.254.169.254"):
        assert not everything.allows(address)


def test_a_name_is_refused_by_its_address_and_the_cure_is_told() -> None:
    transport = CheckedTransport(
        Egress(allow_networks=("10.1.0.0/16",)), resolve=lambda _host, _port: ["10.2.0.1"]
    )
    with pytest.raises(AddressRefusedError, match=r"10\.2\.0\.1, .*allow_networks"):
        transport.handle_request(httpx.Request("POST", "http://pager.example/"))


# -- what is of no use ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"allow_networks": ("10.1.0.1/16",)}, "allow_networks: 10.1.0.1/16 has host bits set"),
        ({"allow_networks": ("intranet",)}, "allow_networks: 'intranet'"),
        ({"allow_networks": "10.0.0.0/8"}, "allow_networks must be a list"),
        ({"allow_networks": ("169.254.0.0/16",)}, "link-local"),
        ({"allow_networks": ("fe80::/64",)}, "link-local"),
        ({"allow_networks": ("10.0.0.0/8",), "allow_private": True}, "leave it out"),
        ({"client_key": "k.pem"}, "client_key needs client_cert"),
        ({"proxy": "https://user:T0K3N@proxy.example:3128"}, "proxy must be http://"),
        ({"proxy": "socks5://user:T0K3N@proxy.example:3128"}, "proxy must be http://"),
        ({"proxy": "proxy.example:3128"}, "proxy must be http://"),
        ({"proxy": "http://user:T0K3N@proxy.example:3128/path"}, "proxy must be http://"),
        ({"proxy": "http://user:T0K3N@proxy.example:65536"}, "proxy must be http://"),
        ({"proxy": "http://user:T0K3N@"}, "proxy must be http://"),
        ({"proxy": ""}, "proxy must be http://"),
        ({"proxy": "http://user:T0K3N@169.254.169.254:80"}, "proxy names 169.254.169.254"),
    ],
)
def test_what_is_of_no_use_is_refused_at_once(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        Egress(**settings)
    assert "T0K3N" not in str(caught.value)


def test_files_for_tls_are_of_no_use_to_a_url_without() -> None:
    for egress in (Egress(ca_file="ca.pem"), Egress(client_cert="me.pem")):
        with pytest.raises(ConfigurationError, match="ca_file and client_cert are for https"):
            check_url("http://pager.example/", egress)


def test_the_login_of_a_proxy_is_told_to_nobody() -> None:
    egress = Egress(proxy="http://user:T0K3N@proxy.example:3128")
    sink = WebhookSink("https://hooks.example.com/", egress=egress)
    assert "T0K3N" not in f"{egress!r} {sink!r} {egress.way!r}"


@pytest.mark.parametrize("header", ["Proxy-Authorization", "proxy-connection"])
def test_headers_are_not_for_the_proxy(header: str) -> None:
    with pytest.raises(ConfigurationError, match="headers may not set"):
        WebhookSink("https://hooks.example.com/", headers={header: "Basic x"})


# -- through a proxy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "0x7f.1", "2130706433", "localhost", "LOCALHOST.", "x.localhost", "10.1.2.3",
        "[::1]", "169.254.169.254", "0xa9fea9fe", "metadata.google.internal", "metadata.google.internal.",
        "instance-data",
    ],
)  # fmt: skip
def test_a_proxy_is_asked_for_no_name_that_is_known_to_lead_inside(host: str) -> None:
    with pytest.raises(ConfigurationError, match="url names"):
        check_url(f"https://{host}/", Egress(proxy=PROXY))


@pytest.mark.parametrize("host", ["169.254.169.254", "0xa9fea9fe", "metadata.google.internal"])
def test_nor_for_credentials_of_its_machine_whatever_is_allowed(host: str) -> None:
    with pytest.raises(ConfigurationError, match="nothing is ever posted there"):
        check_url(f"https://{host}/", Egress(proxy=PROXY, allow_private=True))


def test_private_targets_behind_a_proxy_can_be_allowed() -> None:
    check_url("https://10.1.2.3/", Egress(proxy=PROXY, allow_networks=("10.1.0.0/16",)))
    check_url("https://localhost/", Egress(proxy=PROXY, allow_private=True))


def test_a_proxy_resolves_so_nothing_is_resolved_here() -> None:
    def nobody_asks(_host: str, _port: int) -> list[str]:
        raise AssertionError("resolved here")

    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(204)

    transport = CheckedTransport(Egress(proxy=PROXY), resolve=nobody_asks, inner=httpx.MockTransport(answer))
    transport.handle_request(httpx.Request("POST", "https://hooks.example.com/x"))
    assert [str(request.url) for request in seen] == ["https://hooks.example.com/x"]


def test_of_what_a_proxy_says_only_the_status_is_told() -> None:
    def answer(_request: httpx.Request) -> httpx.Response:
        raise httpx.ProxyError("407 Give me T0K3N")

    transport = CheckedTransport(Egress(proxy=PROXY), inner=httpx.MockTransport(answer))
    with pytest.raises(ProxyRefusedError) as caught:
        transport.handle_request(httpx.Request("POST", "https://hooks.example.com/x"))
    assert str(caught.value) == "the proxy answered 407"


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"ca_file": "nowhere.pem"}, "ca_file: nowhere.pem: No such file"),
        ({"ca_file": "empty.pem"}, "ca_file: empty.pem: no certificates in PEM"),
        ({"client_cert": "nowhere.pem"}, "client_cert: nowhere.pem: No such file"),
        ({"client_cert": "empty.pem"}, "client_cert: empty.pem: not PEM"),
        (
            {"client_cert": "authority-1.pem"},
            "client_cert: authority-1.pem: not PEM, or one of them is missing",
        ),
        ({"client_cert": "authority-1.pem", "client_key": "authority.key"}, "not of one another"),
    ],
)
def test_a_file_that_is_of_no_use_is_refused_at_construction(
    settings: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.pem").touch()
    Authority(tmp_path).issue("me")
    with pytest.raises(ConfigurationError, match=why):
        WebhookSink("https://hooks.example.com/", egress=Egress(**settings))


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("me")
    locked = issued.locked("hunter2")
    with pytest.raises(ConfigurationError, match="client_key is encrypted"):
        CheckedTransport(Egress(client_cert=str(issued.cert), client_key=str(locked)))


# -- in clear ------------------------------------------------------------------------------------------


def warnings_of(url: str, **options: Any) -> list[Any]:
    with capture_logs() as logs:
        for _ in range(2):  # a service makes its sinks twice at the start, and with each election
            WebhookSink(url, **options).close()
    return [line for line in logs if line["event"] == "webhook_in_clear"]


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105


@pytest.mark.parametrize(
    ("name", "options", "sent"),
    [
        ("clear-1", {"headers": {"Authorization": "Bearer T0K3N"}}, ["authorization"]),
        ("clear-2", {"headers": {"X-Api-Key": "T0K3N", "x-team": "a"}}, ["x-api-key"]),
        ("clear-3", {"secrets": [SECRET]}, ["what is signed with secrets"]),
    ],
)
def test_secrets_in_clear_are_warned_of_once(name: str, options: dict[str, Any], sent: list[str]) -> None:
    (line,) = warnings_of("http://pager.example:8080/T0K3N", name=name, **options)
    assert (line["sink"], line["target"], line["sent"]) == (name, "http://pager.example:8080", sent)
    assert line["log_level"] == "warning"
    assert "T0K3N" not in str(line)


@pytest.mark.parametrize(
    ("url", "egress"),
    [
        ("https://pager.example/", None),
        ("http://localhost:8080/", None),
        ("http://127.0.0.1:8080/", Egress(allow_private=True)),
        ("http://[::1]:8080/", Egress(allow_private=True)),
    ],
)
def test_but_not_with_tls_nor_on_the_loopback(url: str, egress: Egress | None) -> None:
    options = {"headers": {"Authorization": "x"}, "secrets": [SECRET], "egress": egress}
    assert not warnings_of(url, name="quiet", **options)


def test_nor_without_secrets() -> None:
    assert not warnings_of("http://pager.example/", headers={"x-team": "a"}, name="quiet-2")


def test_what_is_the_loopback_to_a_proxy_is_not_here() -> None:
    egress = Egress(proxy=PROXY, allow_private=True)
    assert warnings_of("http://localhost/", name="far", headers={"Authorization": "x"}, egress=egress)
