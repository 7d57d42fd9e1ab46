"""docs/install.md has a row for each extra; `make release-check` compares the sizes in it."""

from tests.packaging.extras import EXTRAS, ROOT, too_different


def test_each_extra_is_documented() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [name for name in EXTRAS if f"| `{name}` |" not in page] == []


def test_all_means_all_but_the_service_and_the_demo() -> None:
    (all_,) = EXTRAS["all"]
    named = set(all_.partition("[")[2].rstrip("]").split(","))
    assert EXTRAS.keys() - named <= {"all", "observe", "demo"}


def test_small_changes_of_a_size_are_none() -> None:
    assert not too_different(14.9, 14)
    assert not too_different(800, 770)
    assert too_different(900, 770)
