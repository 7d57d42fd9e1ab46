"""The rows of supported versions: what they run exists; all who name versions name the same."""

import re
import tomllib

import pytest
import yaml

from tests.matrix.__main__ import ROOT, all_rows


def test_what_rows_run_exists() -> None:
    for name, row in all_rows().items():
        assert row.tests, name
        for each in row.tests:
            assert each.startswith("-W") or (ROOT / each).exists(), (name, each)


def test_the_workflow_has_all_rows() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/matrix.yml").read_text())
    assert workflow["jobs"]["row"]["strategy"]["matrix"]["row"] == list(all_rows())


def supported() -> dict[str, tuple[list[str], list[str]]]:
    """Return product -> the versions that docs/install.md claims, and those that it only tries."""
    page = (ROOT / "docs/install.md").read_text()
    section = page.partition("## Supported versions")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (Kafka|Python|PySpark)[^|]* \| ([^|]+) \|([^|]*)\|", section, re.MULTILINE)
    return {
        product: tuple(re.findall(r"\d+\.\d+", column) for column in columns)  # type: ignore[misc]
        for product, *columns in rows
    }


def test_the_table_names_all_versions_that_have_a_row_and_no_other() -> None:
    named = {
        f"{product.lower()}-{version}"
        for product, columns in supported().items()
        for column in columns
        for version in column
    }
    assert named == {row for row in all_rows() if not row.startswith("clients-")}


def test_the_package_claims_the_pythons_that_the_table_claims() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    prefix = "Programming Language :: Python :: "
    claimed = [each.removeprefix(prefix) for each in classifiers if re.match(rf"{prefix}3\.\d", each)]
    assert claimed == supported()["Python"][0]


def test_the_readme_claims_the_same() -> None:
    of = {product: versions for product, (versions, _) in supported().items()}
    kafka, python = (f"{of[product][0]} to {of[product][-1]}" for product in ("Kafka", "Python"))
    assert f"Linux; Kafka {kafka} with KRaft; Python {python} (" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_the_lowest_client_that_we_allow_is_the_one_of_its_row(client: str) -> None:
    """Those of confluent-kafka before 2.13 can only be collected: on a thread of librdkafka that aborts."""
    lock = (ROOT / "requirements" / "clients-lowest.txt").read_text()
    (lowest,) = re.findall(rf"^{client}==(\S+)", lock, re.MULTILINE)
    (allowed,) = set(re.findall(rf'"{client}>=([\d.]+)', (ROOT / "pyproject.toml").read_text()))
    assert lowest in {allowed, f"{allowed}.0"}
