from pathlib import Path

import pytest

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import check_out, parse_pairs
from kafka_partition_events.cli.common.topic_filter import TopicFilter
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.testing.scripted import cluster_of


def test_a_malformed_client_option_is_named_by_its_place_only() -> None:
    with pytest.raises(CliError) as refused:
        parse_pairs(["client.id=x", "secret"])
    assert str(refused.value) == "-X number 2 is not of the form key=value"


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem", "sasl.jaas.config",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "sasl.oauthbearer.extensions",
        "ssl.keystore.key",
    ],
)  # fmt: skip
def test_a_secret_is_refused_where_everybody_can_see_it(name: str) -> None:
    with pytest.raises(CliError) as refused:
        parse_pairs([f"{name}=hunter2"])
    assert str(refused.value) == (
        f"-X {name}: every user of this machine can see a command line; write its value into a file and give "
        f"-X {name}_file=PATH"
    )


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("p=q w\n")
    assert parse_pairs([f"sasl.password_file={tmp_path}/secret"]) == {"sasl.password": "p=q w"}


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CliError) as refused:
        parse_pairs([f"sasl.password_file={tmp_path}/none"])
    assert str(refused.value) == f"-X sasl.password_file: {tmp_path}/none: No such file or directory"


def test_a_resync_is_narrowed_to_the_wanted_topics() -> None:
    cluster = cluster_of({"orders": [1], "payments": [1]})
    shown = TopicFilter("orders").shown(ev.Resync(cluster=cluster, dropped=1))
    assert isinstance(shown, ev.Resync)
    assert set(shown.cluster.by_topic) == {"orders"}


def test_that_a_file_can_be_written_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_out(tmp_path / "report.html")
    for file, complaint in (
        (tmp_path / "nosuch" / "report.html", "there is no such directory to write to"),
        (tmp_path, "is a directory; name a file"),
    ):
        with pytest.raises(CliError, match=complaint):
            check_out(file)
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(CliError, match=r"report\.html: no right to write there"):
        check_out(tmp_path / "report.html")
