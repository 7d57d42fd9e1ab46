"""The shipped Kubernetes manifests fit the image, the configuration and the commands that they run.

`make release-check` validates them against Kubernetes' own schemas; no cluster has run them here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_partition_events import __version__
from kafka_partition_events.cli.app import run
from tests.prometheus_kit import ASSETS

HERE = ASSETS / "kubernetes"
KUSTOMIZATION = yaml.safe_load((HERE / "kustomization.yaml").read_text(encoding="utf-8"))
CONFIG = HERE / "kpe.toml"
MANIFESTS = {
    (document["kind"], document["metadata"]["name"]): document
    for path in sorted(HERE.glob("*.yaml"))
    if path.stem != "kustomization"
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
}
OBSERVER = MANIFESTS["StatefulSet", "kpe-observer"]
TRACKER = MANIFESTS["Deployment", "kpe-tracker"]
BOTH = pytest.mark.parametrize("workload", [OBSERVER, TRACKER], ids=lambda each: each["metadata"]["name"])


def container(workload: Mapping[str, Any]) -> dict[str, Any]:
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_the_kustomization_names_files_that_there_are_and_the_image_of_this_version() -> None:
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    for file in [*KUSTOMIZATION["resources"], *generated["files"]]:
        assert (HERE / file).is_file()
    (image,) = KUSTOMIZATION["images"]
    assert image["newTag"] == __version__
    assert {container(each)["image"] for each in (OBSERVER, TRACKER)} == {image["name"]}


@BOTH
def test_there_are_two_and_one_may_be_away(workload: Mapping[str, Any]) -> None:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert workload["spec"]["replicas"] == 2
    budget = MANIFESTS["PodDisruptionBudget", workload["metadata"]["name"]]["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, labels)
    assert workload["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service", workload["metadata"]["name"]]["spec"]["selector"] == labels
    monitored = MANIFESTS["ServiceMonitor", "kpe"]["spec"]["selector"]["matchExpressions"][0]
    assert labels[monitored["key"]] in monitored["values"]


@BOTH
def test_ports_and_probes_are_those_of_the_service(workload: Mapping[str, Any]) -> None:
    (port,) = container(workload)["ports"]
    (served,) = MANIFESTS["Service", workload["metadata"]["name"]]["spec"]["ports"]
    assert served == {"name": port["name"], "port": port["containerPort"]}
    probes = {
        kind: container(workload)[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
    }
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/livez", "liveness": "/livez", "readiness": "/readyz",
    }  # fmt: skip
    assert {probe["port"] for probe in probes.values()} == {port["name"]}


@BOTH
def test_nothing_is_written_but_to_volumes_and_by_a_user_without_rights(workload: Mapping[str, Any]) -> None:
    pod = workload["spec"]["template"]["spec"]
    assert container(workload)["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert pod["securityContext"]["runAsUser"] != 0
    claimed = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", ())]
    volumes = {volume["name"] for volume in pod["volumes"]} | {*claimed}
    assert {mount["name"] for mount in container(workload)["volumeMounts"]} == volumes


def test_the_outbox_is_on_the_claimed_volume() -> None:
    environment = {each["name"]: each["value"] for each in container(OBSERVER)["env"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container(OBSERVER)["volumeMounts"]}
    assert Path(environment["KPE_OUTBOX__PATH"]).parent == Path(mounts["outbox"])
    assert environment["KPE_HTTP__LISTEN"] == f"0.0.0.0:{container(OBSERVER)['ports'][0]['containerPort']}"


def test_the_configuration_is_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in container(OBSERVER)["env"]:
        monkeypatch.setenv(each["name"], each["value"])
    assert run(["config", "show", "--config", str(CONFIG)]) == 0, capsys.readouterr().err


def test_commands_take_their_arguments(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command, workload in ((["observe"], OBSERVER), (["tracker"], TRACKER)):
        named = container(workload)["command"]
        assert named == ["kpe", *command]
        missing = [
            word.replace("/etc/kpe/kpe.toml", str(tmp_path / "none.toml"))
            for word in container(workload)["args"]
        ]
        assert run([*command, *missing]) == 2
        assert capsys.readouterr().err.startswith(f"kpe: {tmp_path}/none.toml: No such file")


def test_no_yaml_anchors_which_kustomize_does_not_take_everywhere() -> None:
    for path in HERE.glob("*.yaml"):
        tokens = yaml.scan(path.read_text(encoding="utf-8"))
        assert not any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in tokens)
