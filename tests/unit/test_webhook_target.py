"""Where a webhook may connect to: policy of addresses, and one look at a name for each connection."""

from collections.abc import Sequence

import httpx
import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events_listeners.webhook.connecting import AddressRefusedError
from kafka_partition_events_listeners.webhook.egress import Egress, is_public, resolve
from kafka_partition_events_listeners.webhook.target import CheckedTransport, check_url, masked

PUBLIC, OTHER_PUBLIC = "93.184.216.34", "2606:2800:220:1::1"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255",  # noqa: S104
        "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1",
        "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1",
        "255.255.255.255",
        "::1", "::", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1",
        "2001:db8::1", "100::1", "2001::1", "4000::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::ffff:224.0.0.1", "::127.0.0.1",
        "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::", "2002:a9fe:a9fe::1",
        "3fff::1", "3fff:fff::1", "168.63.129.16", "::ffff:168.63.129.16",
        "64:ff9b::127.0.0.1", "64:ff9b::a00:1", "64:ff9b::169.254.169.254", "64:ff9b:1::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_of_the_public_internet(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8", PUBLIC, "172.32.0.1", "172.15.255.255", "100.63.255.255", "100.128.0.1", "11.0.0.1",
        "2606:4700:4700::1111", OTHER_PUBLIC, "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
    ],
)  # fmt: skip
def test_addresses_that_are(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.com/x", "begin with https"),
        ("file:///etc/passwd", "begin with https"),
        ("unix:///run/docker.sock", "begin with https"),
        ("hooks.example.com/T0K3N", "begin with https"),
        ("", "begin with https"),
        ("https:///T0K3N", "host"),
        ("https://user:T0K3N@example.com/", "Authorization"),
        ("https://T0K3N@example.com/", "Authorization"),
        ("https://example.com:65536/T0K3N", "port"),
        ("https://example.com:0/T0K3N", "port"),
        ("https://example.com:https/T0K3N", "not a URL"),
        ("https://exa\nmple.com/T0K3N", "not a URL"),
        ("http://127.0.0.1/T0K3N", "no public address"),
        ("http://[::1]:8080/", "no public address"),
        ("http://[::ffff:10.0.0.1]/", "no public address"),
        ("http://192.168.1.1/", "allow_private=True"),
        ("http://169.254.169.254/latest/meta-data", "nothing is ever posted there"),
    ],
)
def test_a_url_that_cannot_be_a_target_is_refused_at_once_without_being_repeated(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        check_url(url)
    assert "T0K3N" not in str(caught.value)


def test_private_addresses_can_be_allowed() -> None:
    assert check_url("http://10.0.0.1:9093/x", Egress(allow_private=True)).host == "10.0.0.1"


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "168.63.129.16", "fe80::1", "::ffff:169.254.1.1", "2002:a9fe:a9fe::1"]
)
def test_what_a_machine_is_told_its_credentials_by_never_is(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(ConfigurationError, match="nothing is ever posted there"):
        check_url(f"http://{host}/x", Egress(allow_private=True))
    anything = CheckedTransport(
        Egress(allow_private=True),
        resolve=lambda _host, _port: [address],
        inner=httpx.MockTransport(lambda _: httpx.Response(204)),
    )
    with pytest.raises(AddressRefusedError, match="nothing is ever posted there"):
        anything.handle_request(httpx.Request("POST", "http://pager.example/"))


def test_only_scheme_host_and_port_of_a_url_may_be_told() -> None:
    assert masked(httpx.URL("https://hooks.slack.com/services/T0/B0/xyz?k=v#f")) == "https://hooks.slack.com"
    assert masked(httpx.URL("http://[2606:2800::1]:8080/token")) == "http://[2606:2800::1]:8080"


class Network:
    """Names with the addresses that they have at one look after the other, and hosts that answer."""

    def __init__(self, *looks: Sequence[str], dead: Sequence[str] = ()) -> None:
        self.looks, self.dead = list(looks), dead
        self.asked: list[tuple[str, int]] = []
        self.connected: list[httpx.Request] = []
        self.transport = CheckedTransport(resolve=self.resolve, inner=httpx.MockTransport(self.answer))

    def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self.looks.pop(0)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.connected.append(request)
        if request.url.host in self.dead:
            raise httpx.ConnectError("connection refused")
        return httpx.Response(204)

    def post(self, url: str = "https://hooks.example.com/path?q=1") -> httpx.Response:
        return self.transport.handle_request(httpx.Request("POST", url, content=b"{}"))

    @property
    def addresses(self) -> list[str]:
        return [request.url.host for request in self.connected]


def test_the_connection_goes_to_the_address_and_everything_else_to_the_name() -> None:
    network = Network([PUBLIC])
    assert network.post().status_code == 204
    (request,) = network.connected
    assert str(request.url) == f"https://{PUBLIC}/path?q=1"
    assert request.headers["host"] == "hooks.example.com"
    assert request.extensions["sni_hostname"] == "hooks.example.com"
    assert request.read() == b"{}"
    assert network.asked == [("hooks.example.com", 443)]


def test_a_port_of_its_own_is_kept() -> None:
    network = Network([OTHER_PUBLIC])
    network.post("http://hooks.example.com:8080/")
    assert str(network.connected[0].url) == f"http://[{OTHER_PUBLIC}]:8080/"
    assert network.connected[0].headers["host"] == "hooks.example.com:8080"
    assert network.asked == [("hooks.example.com", 8080)]


def test_a_name_that_turns_private_after_the_first_look_is_not_connected_to() -> None:
    network = Network([PUBLIC], ["127.0.0.1"])
    network.post()
    with pytest.raises(AddressRefusedError, match=r"127\.0\.0\.1.*allow_private"):
        network.post()
    assert network.addresses == [PUBLIC]


def test_a_request_looks_once_so_that_what_was_checked_is_what_is_connected_to() -> None:
    network = Network([PUBLIC], ["169.254.169.254"])
    network.post()
    assert len(network.asked) == 1
    assert network.addresses == [PUBLIC]


def test_of_many_addresses_only_public_ones_are_connected_to() -> None:
    network = Network(["10.0.0.1", PUBLIC, "::1"])
    network.post()
    assert network.addresses == [PUBLIC]


def test_an_address_that_cannot_be_connected_to_gives_way_to_the_next_one() -> None:
    network = Network([OTHER_PUBLIC, PUBLIC], dead=[OTHER_PUBLIC])
    assert network.post().status_code == 204
    assert network.addresses == [OTHER_PUBLIC, PUBLIC]


def test_when_none_can_be_connected_to_the_last_one_tells_why() -> None:
    network = Network([OTHER_PUBLIC, PUBLIC], dead=[OTHER_PUBLIC, PUBLIC])
    with pytest.raises(httpx.ConnectError, match="refused"):
        network.post()


def test_a_name_with_many_addresses_does_not_keep_us_forever() -> None:
    many = [f"93.184.216.{n}" for n in range(100)]
    network = Network(many, dead=many)
    with pytest.raises(httpx.ConnectError):
        network.post()
    assert len(network.connected) == 4


def test_what_is_not_a_matter_of_connecting_is_not_tried_elsewhere() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        raise httpx.ReadTimeout("no answer")

    transport = CheckedTransport(
        resolve=lambda _host, _port: [PUBLIC, OTHER_PUBLIC], inner=httpx.MockTransport(answer)
    )
    with pytest.raises(httpx.ReadTimeout):
        transport.handle_request(httpx.Request("POST", "https://hooks.example.com/"))
    assert asked == [PUBLIC]


@pytest.mark.parametrize("host", ["127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1"])
def test_other_ways_to_write_loopback_lead_to_loopback(host: str) -> None:
    assert resolve(host, 80) == ["127.0.0.1"]


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..b"])
def test_what_is_no_name_cannot_be_resolved(host: str) -> None:
    with pytest.raises(httpx.ConnectError, match="can't be resolved"):
        resolve(host, 443)
