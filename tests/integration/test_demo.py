"""`kpe demo` tells the story that this project is there for, on real brokers. One run serves all tests."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from attrs import frozen

from tests.integration.programs import KPE, ended

DEMO = (*KPE, "demo")
SHORT = (*DEMO, "--seconds", "20s", "--rate", "200", "--out")
ROW = re.compile(
    r"^ *(?P<who>confluent-kafka|kafka-python|ours|ours, hedge \+ move) +(?P<stall>[\d.]+)% +"
    r"(?P<kill>[\d.]+)% +(?P<longest>[\d.]+) s +(?P<failed>[\d,]+) +"
    r"(?P<stall_noticed>never|[\d.]+ s) +(?P<kill_noticed>never|[\d.]+ s)",
    re.MULTILINE,
)
MOVE = "ours, hedge + move"
CALM = 2.0

pytestmark = pytest.mark.kafka


@frozen
class Ran:
    output: str
    page: str

    @property
    def rate(self) -> int:
        """Records a second of each producer in the scenes; less than asked for where the machine is slow."""
        return int(([*re.findall(r"from now on (\d+) records/s", self.output)] or ["200"])[-1])

    @property
    def verdict(self) -> dict[str, dict[str, str]]:
        """The rows of the last table."""
        return {found["who"]: found.groupdict() for found in ROW.finditer(self.output)}

    def late(self, who: str) -> float:
        """The share of a producer's records that were late during the stall, in percent."""
        return float(self.verdict[who]["stall"])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run it; once more if others kept the machine so busy that records were late before the stall."""
    page = tmp_path_factory.mktemp("demo") / "report.html"
    for _ in range(2):
        done = ended(*SHORT, page, limit_s=400)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr
        if late_in_calm(done.stdout) <= CALM:
            break
    return Ran(done.stdout, page.read_text(encoding="utf-8"))


def late_in_calm(output: str) -> float:
    """Return the largest share of late records, in percent, that any producer had before the stall."""
    calm = output.partition("scene 1 of")[2].partition("scene 2 of")[0]
    return max(map(float, re.findall(r"([\d.]+)% over 100 ms", calm)), default=0.0)


def test_a_stalled_broker_makes_plain_producers_late_and_ours_far_less(ran: Ran) -> None:
    assert set(ran.verdict) == {"confluent-kafka", "kafka-python", "ours", MOVE}, ran.output
    for plain in ("confluent-kafka", "kafka-python"):
        assert ran.late(plain) > 40, ran.output
        # Without a rescue what is on its way when the stall begins is late, and on a busy machine it is seen
        # later: 11 - 59% of plain's beside five busy loops; below is what holds on a quiet machine.
        assert ran.late("ours") < ran.late(plain) * 2 / 3, ran.output
        assert ran.late(MOVE) < ran.late(plain) / 2, ran.output
    assert ran.verdict["confluent-kafka"]["stall_noticed"] == "never"
    assert "never" not in {ran.verdict["ours"][fault] for fault in ("stall_noticed", "kill_noticed")}


@pytest.mark.weekly
def test_on_a_quiet_machine_hardly_any_of_ours_is_late(ran: Ran) -> None:
    assert ran.late(MOVE) <= 1, ran.output
    # What was on its way when the stall began is late without a rescue: some 20 records, in a stall of 5 s.
    assert ran.late("ours") <= 5, ran.output


@pytest.mark.weekly
def test_ours_notices_within_a_second_what_metadata_never_says(ran: Ran) -> None:
    for fault in ("stall_noticed", "kill_noticed"):
        assert float(ran.verdict["ours"][fault].removesuffix(" s")) < 1, ran.output


def test_keys_that_move_are_late_far_less_when_a_broker_is_killed(ran: Ran) -> None:
    line = next(line for line in ran.output.splitlines() if line.startswith("Keyed records"))
    shares = {who: float(share) for who, share in re.findall(r"(\w[^%]*?) ([\d.]+)%", line.split(": ")[1])}
    assert set(shares) == set(ran.verdict), line
    if late_in_calm(ran.output) <= CALM:
        assert shares[MOVE] < shares["confluent-kafka"] * 2 / 3, line


def test_keys_that_moved_are_read_in_their_order_each_record_once(ran: Ran) -> None:
    proof = r"([\d,]+) records of ([\d,]+) keys read, ([\d,]+) of which had moved; 0 out of order, 0 twice\."
    found = re.search(proof, ran.output)
    assert found, ran.output
    records, keys, moved = (int(each.replace(",", "")) for each in found.groups())
    assert records > keys > 0
    assert moved > 0
    assert found[0] in ran.page


def test_every_record_is_accounted_for(ran: Ran) -> None:
    found = re.search(r"Accounted for: ([\d,]+) of ([\d,]+) delivered records are in the topics", ran.output)
    assert found, ran.output
    assert found[1] == found[2]
    assert int(found[1].replace(",", "")) > 4 * ran.rate * 18
    if late_in_calm(ran.output) <= CALM:  # else an election may take longer than a record may, too
        assert ran.verdict["ours"]["failed"] == ran.verdict[MOVE]["failed"] == "0"


def test_it_ends_in_what_to_do_next(ran: Ran) -> None:
    assert '+ PartitioningProducer(conf, rescue="hedge", keys="move")' in ran.output
    assert ran.output.rstrip().endswith("kpe change plan -b HOST:9092 --topic T --to N (likewise)")


def test_a_pipe_gets_a_line_a_second_and_producer_at_most(ran: Ran) -> None:
    lines = re.findall(r"^ *([\d.]+) s +(\S.*?): [\d.]+% over 100 ms", ran.output, re.MULTILINE)
    assert len(lines) > 20
    assert len(lines) == len({(int(float(at)), who) for at, who in lines})


def test_the_page_tells_the_same(ran: Ran) -> None:
    assert "Kafka&#x27;s metadata said that all was well" in ran.page.partition("</h1>")[0], ran.page[:2_000]
    assert "It adds up." in ran.page
    assert f"kpe demo --rate {ran.rate} --seconds 20s" in ran.page
    assert not re.search(r"https?:|<script|<link|<img", ran.page)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_a_telephone_and_a_desk_in_a_browser(ran: Ran, width: int, tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    frame = tmp_path / "frame.html"
    text = json.dumps(ran.page).replace("</", r"<\/")  # else the script ends with the page's first end tag
    frame.write_text(
        f'<body><iframe id="f" width="{width}" height="900" style="border:0"></iframe><script>'
        f"const page = {text};"
        "f.onload = () => { const w = f.contentWindow; document.body.dataset.seen = JSON.stringify({"
        "width: w.document.documentElement.scrollWidth, room: w.innerWidth, "
        "asked: w.performance.getEntriesByType('resource').length, "
        "dots: w.document.querySelectorAll('.plot path').length})}; f.srcdoc = page;</script>",
        encoding="utf-8",
    )
    shown = ended(
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom", frame.as_uri(), limit_s=120,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    found = re.search(r'data-seen="([^"]*)"', shown.stdout)
    assert found, shown.stdout[:500] + shown.stderr
    seen = json.loads(found[1].replace("&quot;", '"'))
    assert seen["width"] <= seen["room"] == width
    assert seen["asked"] == 0
    assert seen["dots"] > 10


def test_ctrl_c_stops_the_demo_and_every_process_that_it_has_started(tmp_path: Path) -> None:
    command, pipe = [*DEMO, "--out", str(tmp_path / "x.html")], subprocess.PIPE
    demo = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    assert demo.stdout is not None
    try:
        while "start" not in (line := demo.stdout.readline()):
            assert line, "it has ended by itself"
        began = time.monotonic()
        demo.send_signal(signal.SIGINT)
        _, complaint = demo.communicate(timeout=60)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == 130
    assert complaint.strip().splitlines()[-1] == "kpe: interrupted"
    assert time.monotonic() - began < 30
    assert not processes_of_session(demo.pid)


def processes_of_session(leader: int) -> list[str]:
    """Return what still runs of what a session's leader has started; Linux only."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(stat.parent.name)
    return found


def test_without_java_it_says_what_is_missing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = ended(*DEMO, cwd=tmp_path, env={**environment, "PATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr == (
        "kpe: Java 17 or newer is not installed, and the demo runs real brokers: install it, or set "
        "JAVA_HOME\n"
    )


@pytest.mark.weekly
def test_it_has_producers_for_asyncio_too(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = ended(*SHORT, page, "--asyncio", limit_s=400)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    rows = re.findall(r"^(aiokafka|ours, asyncio|aiokafka, attached) +([\d.]+)%", done.stdout, re.MULTILINE)
    late = {who: float(share) for who, share in rows}
    assert late["aiokafka"] > 2 * max(late["ours, asyncio"], late["aiokafka, attached"]), done.stdout
    assert "An OrderedConsumer on aiokafka, attached: " in done.stdout
    assert page.exists()
