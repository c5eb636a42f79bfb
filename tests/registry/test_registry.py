"""Versions and aliases: whole after a kill, safe among many writers, verified on load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.registry import Bundle, Lineage, Metric, Pair, Registry, Tensor, digest_of, read_bundle, write_bundle


def made(folder: Path, contents: bytes = b"weights", score: float = 0.9) -> Path:
    """A bundle."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(contents)
    (folder / "transform.json").write_text("{}")
    write_bundle(
        folder,
        Bundle(
            kind="classification",
            trainer="trees",
            framework="lightgbm 4.7.0",
            inputs=(Tensor(name="x", dtype="float32", shape=(-1, 3)),),
            outputs=(Tensor(name="probabilities", dtype="float32", shape=(-1, 2)),),
            classes=("no", "yes"),
            parameters_count=1200,
            metrics=(Metric(name="roc_auc", value=score, low=score - 0.01, high=score + 0.01),),
            lineage=Lineage(data="abc", code="gpuyard 0", parameters=(Pair(name="rounds", value="20"),)),
        ),
    )
    return folder


def registry(tmp_path: Path) -> Registry:
    """An empty one."""
    return Registry(home=Home(path=tmp_path / "home"))


def test_a_version_is_found_by_number_by_alias_and_by_name(tmp_path: Path) -> None:
    own = registry(tmp_path)
    first = own.register("wine", made(tmp_path / "a", b"1"), metrics=(Metric(name="accuracy", value=0.8),))
    second = own.register("wine", made(tmp_path / "b", b"2"))
    assert (first.reference, second.reference) == ("wine/1", "wine/2")
    assert [metric.name for metric in first.metrics] == ["accuracy", "roc_auc"]
    assert first.lineage.data == "abc"
    assert own.get("wine") == second  # no champion yet: the newest
    champion = own.alias("wine", "champion", 1)
    assert own.get("wine") == own.get("wine@champion") == own.get("wine/1") == champion
    assert own.get("wine@latest") == second
    own.alias("wine", "champion", 2)
    assert own.get("wine/1").aliases == ()
    assert [(change.alias, change.version) for change in own.changes("wine")] == [("champion", 1), ("champion", 2)]
    own.unalias("wine", "champion")
    with pytest.raises(InputError, match="wine@champion"):
        own.get("wine@champion")


def test_the_same_bytes_are_one_version(tmp_path: Path) -> None:
    own = registry(tmp_path)
    folder = made(tmp_path / "a")
    assert own.register("wine", folder) == own.register("wine", folder)
    assert len(own.versions("wine")) == 1
    assert own.register("other", folder).reference == "other/1"


def test_the_card_tells_what_was_measured_and_what_it_was_made_from(tmp_path: Path) -> None:
    own = registry(tmp_path)
    version = own.register("wine", made(tmp_path / "a"))
    card = (version.path / "card.md").read_text()
    for words in ("# wine, version 1", "roc_auc | 0.9 | 0.89 to 0.91", "`abc`", "rounds | 20", "rows × 3", "1.2k"):
        assert words in card
    (version.path / "card.md").write_text(card + "\nFor vintners only.\n")  # people may write in it
    assert own.get("wine/1").digest == version.digest


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "model.onnx").write_bytes(b"weightz"), "SHA-256 differs"),
        (lambda folder: (folder / "transform.json").unlink(), "is missing"),
        (lambda folder: (folder / "extra.py").write_text(""), "not part of the bundle"),
        (lambda folder: (folder / "model.json").unlink(), "no model.json"),
        (lambda folder: (folder / "model.json").write_text("{"), "model.json"),
    ],
)
def test_a_damaged_version_is_not_loaded(tmp_path: Path, spoil, said: str) -> None:  # type: ignore[no-untyped-def]
    own = registry(tmp_path)
    version = own.register("wine", made(tmp_path / "a"))
    spoil(version.path)
    with pytest.raises(InputError, match=said):
        own.get("wine")
    assert own.versions("wine")[0].version == 1  # it can still be listed, and deleted
    own.delete("wine", 1)
    assert own.names() == ()


def test_a_description_that_was_swapped_for_another_valid_one_is_not_loaded(tmp_path: Path) -> None:
    own = registry(tmp_path)
    version = own.register("wine", made(tmp_path / "a"))
    bundle = read_bundle(version.path)
    write_bundle(
        version.path, Bundle(**{**{name: getattr(bundle, name) for name in bundle.__slots__}, "classes": ("yes", "no")})
    )
    with pytest.raises(InputError, match="not the one that was registered"):
        own.get("wine")


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 101, "-x", "a@b"])
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        registry(tmp_path).register(name, made(tmp_path / "a"))


def test_what_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    own = registry(tmp_path)
    own.register("wine", made(tmp_path / "a"))
    with pytest.raises(InputError, match='did you mean "wine"'):
        own.get("wime")
    with pytest.raises(InputError, match="use wine/1"):
        own.get("wine/7")
    for text in ("wine/0", "wine/x", "wine@", "wine@7"):
        with pytest.raises(InputError):
            own.get(text)
    with pytest.raises(InputError, match="is not a model"):
        own.register("wine", tmp_path)


def test_numbers_are_not_given_twice_and_aliased_versions_stay(tmp_path: Path) -> None:
    own = registry(tmp_path)
    own.register("wine", made(tmp_path / "a", b"1"))
    own.register("wine", made(tmp_path / "b", b"2"))
    own.alias("wine", "challenger", 2)
    with pytest.raises(InputError, match="is challenger"):
        own.delete("wine", 2)
    own.unalias("wine", "challenger")
    own.delete("wine", 2)
    assert not (own.home.models / "wine" / "2").exists()
    assert own.register("wine", made(tmp_path / "c", b"3")).version == 3


WRITER = """
    import sys
    from pathlib import Path
    from gpuyard.home import Home
    from gpuyard.registry import Registry
    own = Registry(home=Home(path=Path(sys.argv[1])))
    for folder in sys.argv[2:]:
        own.alias("wine", "champion", own.register("wine", Path(folder)).version)
"""


def test_many_writers_get_one_number_each(tmp_path: Path) -> None:
    writers = []
    for who in range(3):
        folders = [str(made(tmp_path / f"{who}-{index}", f"{who} {index}".encode())) for index in range(4)]
        script = [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path / "home"), *folders]
        writers.append(subprocess.Popen(script))
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    own = registry(tmp_path)
    assert [version.version for version in own.versions("wine")] == list(range(1, 13))
    assert len({version.digest for version in own.versions("wine")}) == 12
    assert all(own.get(version.reference) for version in own.versions("wine"))
    assert own.collect() == ()


KILLED = """
    import os, signal, sys
    from pathlib import Path
    import gpuyard.registry.registry as room
    from gpuyard.home import Home
    home, folder, where = Home(path=Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
    die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    if where == "copied":
        room.digest_of = die  # the copy stands, nothing else
    else:
        room.sync_tree = die  # renamed into its place, not committed
    room.Registry(home=home).register("wine", folder)
"""


@pytest.mark.parametrize("where", ["copied", "renamed"])
def test_a_kill_leaves_nothing_half(tmp_path: Path, where: str) -> None:
    own = registry(tmp_path)
    own.register("wine", made(tmp_path / "a", b"1"))
    script = [sys.executable, "-c", textwrap.dedent(KILLED), str(own.home.path), str(made(tmp_path / "b", b"2")), where]
    assert subprocess.run(script, check=False).returncode == -signal.SIGKILL
    assert [version.version for version in own.versions("wine")] == [1]
    left = own.home.models / (".incoming" if where == "copied" else "wine/2")
    assert left.exists()
    if where == "renamed":  # the number was never given, so the next one takes it
        assert own.register("wine", made(tmp_path / "c", b"3")).version == 2
        assert (own.home.models / "wine" / "2" / "model.onnx").read_bytes() == b"3"
        assert own.collect() == ()
    else:
        assert len(own.collect()) == 1
    assert list((own.home.models / ".incoming").iterdir()) == []


def test_folders_without_a_row_are_collected(tmp_path: Path) -> None:
    own = registry(tmp_path)
    own.register("wine", made(tmp_path / "a"))
    made(own.home.models / "wine" / "9")
    assert own.collect() == (str(own.home.models / "wine" / "9"),)
    assert own.get("wine").version == 1
    assert own.collect() == ()


def test_a_bundle_says_what_contradicts_itself(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    bundle = Bundle(
        kind="classification", trainer="trees", inputs=(), outputs=(), classes=("a",),
        metrics=(Metric(name="loss", value=float("nan")), Metric(name="loss", value=1.0)),
    )  # fmt: skip
    with pytest.raises(InputError) as caught:
        write_bundle(tmp_path / "x", bundle)
    assert [problem.what for problem in caught.value.problems] == [
        "a classification model has no model.onnx", "fewer than two classes", "metrics: loss twice",
        "metric loss is not a finite number",
    ]  # fmt: skip
    assert not (tmp_path / "x" / "model.json").exists()


def test_a_bundle_does_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    folder = made(tmp_path / "a")
    text = (folder / "model.json").read_text().replace('"transform.json"', '"../secret"')
    (folder / "model.json").write_text(text)
    with pytest.raises(InputError, match="leads out"):
        read_bundle(folder)
    linked = made(tmp_path / "b")
    (tmp_path / "secret").write_text("{}")
    (linked / "transform.json").unlink()
    os.symlink(tmp_path / "secret", linked / "transform.json")
    with pytest.raises(InputError, match="leads out"):
        read_bundle(linked)


def test_a_bundle_is_the_same_wherever_it_stands(tmp_path: Path) -> None:
    assert digest_of(made(tmp_path / "a")) == digest_of(made(tmp_path / "b"))
    assert digest_of(made(tmp_path / "a2")) != digest_of(made(tmp_path / "c", b"other"))
