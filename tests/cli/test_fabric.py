"""`gpuyard fabric`: every subcommand with the flags that scripts use."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from gpuyard.app.fabric_configs import audit_files
from gpuyard.cli.main import main
from gpuyard.errors import InputError


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and standard output."""
    code = main(["fabric", *words])
    return code, capsys.readouterr().out


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small saved fabric."""
    path = tmp_path_factory.mktemp("fabric") / "fabric.json"
    words = ["--gpus", "16", "--switch", "qfx5240-64od", "--shape", "two-tier"]
    assert main(["fabric", "design", *words, "-o", str(path)]) == 0
    return path


def test_size_counts_switches_and_cables(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "size", "--nodes", "64", "--rails", "8", "--radix", "64", "--json")
    result = json.loads(out)
    assert code == 0
    assert list(result)[:9] == [
        "leaves",
        "spines",
        "cores",
        "node_leaf_cables",
        "leaf_spine_cables",
        "spine_core_cables",
        "gpus",
        "uplinks_per_leaf",
        "oversubscription_ratio",
    ]
    assert [result[key] for key in list(result)[:9]] == [16, 8, 0, 512, 512, 0, 512, 32, 1.0]


def test_size_beyond_two_tiers_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "size", "--nodes", "4096", "--radix", "64", "--tiers", "2", "--json")
    assert code == 3
    assert json.loads(out)["infeasible"]["fix"]


def test_headroom_matches_published_values(capsys: pytest.CaptureFixture[str]) -> None:
    words = "headroom --asic spectrum-4 --speed 400Gbps --cable 40m --mtu 9216 --small-packets 100 --json"
    code, out = run(capsys, *words.split())
    result = json.loads(out)
    assert code == 0
    assert (result["xoff_bytes"], result["xon_bytes"], result["size_bytes"]) == (
        283648,
        19456,
        303104,
    )
    code, out = run(
        capsys, *["headroom", "--asic", "z9864f", "--speed", "400Gbps", "--cable", "40m", "--json"]
    )
    assert json.loads(out)["xoff_bytes"] == 446024


@pytest.mark.parametrize(
    "words",
    [
        "headroom --asic spectrum-9 --speed 400Gbps --cable 40m",
        "headroom --asic spectrum-4 --speed 400 --cable 40m",
        "size --nodes 0 --radix 64",
        "design",
        "design --gpus 12",
        "design --gpus 16 --switch qfx9999",
        "nonsense",
        "",
        "draw no.json",
        "verify no.json",
        "import no.csv",
        "draw {saved} -o picture.png",
        "design --gpus 8 --tenant x",
    ],
)
def test_wrong_arguments_exit_with_2_and_a_fix(
    capsys: pytest.CaptureFixture[str], saved: Path, words: str
) -> None:
    assert main(["fabric", *words.format(saved=saved).split()]) == 2
    error = capsys.readouterr().err
    assert "error:" in error
    assert "fix:" in error


def test_design_prints_the_bytes_it_saves(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    code, out = run(
        capsys,
        "design",
        "--gpus",
        "16",
        "--switch",
        "qfx5240-64od",
        "--shape",
        "two-tier",
        "--json",
    )
    assert code == 0
    assert out == saved.read_text(encoding="utf-8")


def test_design_overrides_saved_demand(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    code, out = run(
        capsys, "design", str(saved), "--addressing", "unnumbered", "--tenant", "blue=1-1", "--json"
    )
    result = json.loads(out)
    assert code == 0
    assert result["demand"]["addressing"] == "unnumbered"
    assert [vrf["name"] for vrf in result["vrfs"]] == ["blue"]


def test_design_reads_a_demand_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    demand = tmp_path / "demand.yaml"
    demand.write_text("server_count: 4\nnic: 400Gbps\nleaf: sn5600\nos: sonic\n", encoding="utf-8")
    code, out = run(capsys, "design", str(demand), "--json")
    assert code == 0
    assert json.loads(out)["demand"]["os"] == "sonic"


def test_design_for_cloud_machine_separates_provider_and_user_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out = run(capsys, "design", "--gpus", "16", "--machine", "a3-ultragpu-8g", "--json")
    assert code == 0
    assert json.loads(out)["provider"]["ours"]


def test_designed_fabric_passes_every_check(
    capsys: pytest.CaptureFixture[str], saved: Path, tmp_path: Path
) -> None:
    page = tmp_path / "fabric.html"
    code, out = run(capsys, "verify", str(saved), "--json", "--html", str(page))
    result = json.loads(out)
    assert code == 0
    assert {check["verdict"] for check in result["checks"]} == {"passed"}
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_swapped_cables_are_reported_by_import_and_verify(
    capsys: pytest.CaptureFixture[str], saved: Path, tmp_path: Path
) -> None:
    code, out = run(capsys, "render", str(saved), "-o", str(tmp_path), "--json")
    assert code == 0
    assert "cabling.csv" in json.loads(out)["files"]
    cables = tmp_path / "cabling.csv"
    code, out = run(capsys, "import", str(cables), "--against", str(saved), "--json")
    assert (code, json.loads(out)["findings"]) == (0, [])
    text = cables.read_text(encoding="utf-8").replace(
        "server-1,gpu0_eth,leaf-s1-r1", "server-1,gpu0_eth,X"
    )
    text = text.replace("server-1,gpu1_eth,leaf-s1-r2", "server-1,gpu1_eth,leaf-s1-r1")
    cables.write_text(
        text.replace("server-1,gpu0_eth,X", "server-1,gpu0_eth,leaf-s1-r2"), encoding="utf-8"
    )
    code, out = run(
        capsys,
        "import",
        str(cables),
        "--against",
        str(saved),
        "--json",
        "-o",
        str(tmp_path / "built.json"),
    )
    assert code == 3
    assert {finding["rule"] for finding in json.loads(out)["findings"]} == {"rail"}
    code, out = run(capsys, "verify", str(saved), "--as-built", str(cables), "--json")
    assert code == 3
    assert "rails" in {finding["rule"] for finding in json.loads(out)["findings"]}
    code, out = run(capsys, "verify", str(tmp_path / "built.json"), "--json")
    assert code == 3


def test_draw_writes_svg_and_html(
    capsys: pytest.CaptureFixture[str], saved: Path, tmp_path: Path
) -> None:
    for name in ("a.svg", "a.html"):
        code, out = run(capsys, "draw", str(saved), "-o", str(tmp_path / name), "--json")
        assert (code, json.loads(out)) == (0, {"file": str(tmp_path / name)})
        assert "leaf-s1-r1" in (tmp_path / name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_commands_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "fabric.md").read_text(
        encoding="utf-8"
    )
    blocks = re.findall(r"^```sh\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 7
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0, line
    assert "built as designed" in capsys.readouterr().out
    demand = re.search(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert demand is not None
    Path("demand.yaml").write_text(demand[1], encoding="utf-8")
    assert main(["fabric", "design", "demand.yaml"]) == 0


def test_audit_of_a_folder_without_configurations_names_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    code, _ = run(capsys, "audit", str(tmp_path), "--json")
    assert code == 2
    with pytest.raises(InputError, match=tmp_path.name):
        audit_files([tmp_path])


def test_audit_of_one_device_states_what_it_does_not_verify(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "leaf-1.cfg"
    path.write_text("feature bgp\nhostname leaf-1\nrouter bgp 65001\n")
    code, out = run(capsys, "audit", str(path))
    assert code == 0
    assert "--against" in out


def test_audit_and_verify_find_a_wrong_as_number(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved, configs = tmp_path / "fabric.json", tmp_path / "configs"
    size = ["--gpus", "16", "--shape", "two-tier", "--nic", "400Gbps", "--switch", "sn5600"]
    assert run(capsys, "design", *size, "--os", "frr", "-o", str(saved))[0] == 0
    assert run(capsys, "render", str(saved), "-o", str(configs))[0] == 0
    audit = ["audit", str(configs), "--against", str(saved)]
    assert run(capsys, *audit)[0] == 0
    file = configs / "switches" / "spine-1" / "frr.conf"
    asn = json.loads(run(capsys, *audit, "--json")[1])["devices"][0]
    assert asn["unread"] == []
    text = file.read_text()
    number = re.search(r"router bgp (\d+)", text)
    assert number is not None
    file.write_text(text.replace(f"router bgp {number[1]}", "router bgp 64999"))
    code, out = run(capsys, *audit, "--json")
    assert code == 3
    assert [one["rule"] for one in json.loads(out)["findings"]] == ["config-asn"]
    code, out = run(capsys, "verify", str(saved), "--configs", str(configs), "--json")
    assert code == 3
    verification = json.loads(out)
    assert verification["findings"][0]["rule"] == "config-asn"
    assert verification["checks"][-1]["name"] == "configs"


def test_export_writes_the_files_of_a_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved, site = tmp_path / "fabric.json", tmp_path / "site.yaml"
    site.write_text(
        "management_prefix: 192.0.2.0/24\ngateway: 192.0.2.1\nntp_servers: [192.0.2.2]\n"
    )
    size = ["--gpus", "16", "--shape", "two-tier", "--nic", "400Gbps", "--switch", "sn5600"]
    assert run(capsys, "design", *size, "-o", str(saved))[0] == 0
    words = ["export", str(saved), "--format", "netbox", "--site", str(site)]
    code, out = run(capsys, *words, "-o", str(tmp_path / "out"), "--json")
    assert code == 0
    files = json.loads(out)["files"]
    assert files[0] == "netbox/01-sites.csv"
    assert all((tmp_path / "out" / path).is_file() for path in files)
