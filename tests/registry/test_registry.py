"""Model versions and aliases: atomic registration, concurrent writers, verification on load."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.registry.bundle import (
    Metric,
    ModelBundle,
    ModelLineage,
    Tag,
    Tensor,
    digest_of,
    read_bundle,
    write_bundle,
)
from gpuyard.registry.registry import Registry


def make_bundle(folder: Path, contents: bytes = b"weights", score: float = 0.9) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(contents)
    (folder / "transform.json").write_text("{}")
    write_bundle(
        folder,
        ModelBundle(
            kind="classification",
            trainer="trees",
            framework="lightgbm 4.7.0",
            inputs=(Tensor(name="x", dtype="float32", shape=(-1, 3)),),
            outputs=(Tensor(name="probabilities", dtype="float32", shape=(-1, 2)),),
            classes=("no", "yes"),
            parameters_count=1200,
            metrics=(Metric(name="roc_auc", value=score, low=score - 0.01, high=score + 0.01),),
            lineage=ModelLineage(
                data="abc", code="gpuyard 0", parameters=(Tag(name="rounds", value="20"),)
            ),
        ),
    )
    return folder


def registry(tmp_path: Path) -> Registry:
    return Registry(home=Home(path=tmp_path / "home"))


def test_versions_resolve_by_number_alias_and_name(tmp_path: Path) -> None:
    own = registry(tmp_path)
    first = own.register(
        "wine", make_bundle(tmp_path / "a", b"1"), metrics=(Metric(name="accuracy", value=0.8),)
    )
    second = own.register("wine", make_bundle(tmp_path / "b", b"2"))
    assert (first.reference, second.reference) == ("wine/1", "wine/2")
    assert [metric.name for metric in first.metrics] == ["accuracy", "roc_auc"]
    assert first.lineage.data == "abc"
    assert own.get("wine") == second  # no champion yet: the newest
    champion = own.alias("wine", "champion", 1)
    assert own.get("wine") == own.get("wine@champion") == own.get("wine/1") == champion
    assert own.get("wine@latest") == second
    own.alias("wine", "champion", 2)
    assert own.get("wine/1").aliases == ()
    assert [(change.alias, change.version) for change in own.changes("wine")] == [
        ("champion", 1),
        ("champion", 2),
    ]
    own.unalias("wine", "champion")
    with pytest.raises(InputError, match="wine@champion"):
        own.get("wine@champion")


def test_same_bytes_register_as_one_version(tmp_path: Path) -> None:
    own = registry(tmp_path)
    folder = make_bundle(tmp_path / "a")
    assert own.register("wine", folder) == own.register("wine", folder)
    assert len(own.versions("wine")) == 1
    assert own.register("other", folder).reference == "other/1"


def test_card_shows_metrics_and_lineage_and_may_be_edited(tmp_path: Path) -> None:
    own = registry(tmp_path)
    version = own.register("wine", make_bundle(tmp_path / "a"))
    card = (version.path / "card.md").read_text()
    for words in (
        "# wine, version 1",
        "roc_auc | 0.9 | 0.89 to 0.91",
        "`abc`",
        "rounds | 20",
        "rows × 3",
        "1.2k",
    ):
        assert words in card
    (version.path / "card.md").write_text(card + "\nFor vintners only.\n")  # people may edit it
    assert own.get("wine/1").digest == version.digest


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.onnx").write_bytes(b"weightz"), "SHA-256 mismatch"),
        (lambda folder: (folder / "transform.json").unlink(), "is missing"),
        (lambda folder: (folder / "extra.py").write_text(""), "not part of the bundle"),
        (lambda folder: (folder / "model.json").unlink(), "no model.json"),
        (lambda folder: (folder / "model.json").write_text("{"), "model.json"),
    ],
)
def test_damaged_version_raises_input_error_and_can_be_deleted(
    tmp_path: Path, damage, message: str
) -> None:  # type: ignore[no-untyped-def]
    own = registry(tmp_path)
    version = own.register("wine", make_bundle(tmp_path / "a"))
    damage(version.path)
    with pytest.raises(InputError, match=message):
        own.get("wine")
    assert own.versions("wine")[0].version == 1  # it can still be listed, and deleted
    own.delete("wine", 1)
    assert own.names() == ()


def test_replaced_description_raises_input_error(tmp_path: Path) -> None:
    own = registry(tmp_path)
    version = own.register("wine", make_bundle(tmp_path / "a"))
    bundle = read_bundle(version.path)
    write_bundle(
        version.path,
        ModelBundle(
            **{
                **{name: getattr(bundle, name) for name in bundle.__slots__},
                "classes": ("yes", "no"),
            }
        ),
    )
    with pytest.raises(InputError, match="changed since it was registered"):
        own.get("wine")


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 101, "-x", "a@b"])
def test_invalid_model_name_raises_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        registry(tmp_path).register(name, make_bundle(tmp_path / "a"))


def test_unknown_reference_suggests_existing_ones(tmp_path: Path) -> None:
    own = registry(tmp_path)
    own.register("wine", make_bundle(tmp_path / "a"))
    with pytest.raises(InputError, match='did you mean "wine"'):
        own.get("wime")
    with pytest.raises(InputError, match="use wine/1"):
        own.get("wine/7")
    for text in ("wine/0", "wine/x", "wine@", "wine@7"):
        with pytest.raises(InputError):
            own.get(text)
    with pytest.raises(InputError, match="is not a model"):
        own.register("wine", tmp_path)


def test_version_numbers_are_not_reused_and_aliased_versions_are_protected(tmp_path: Path) -> None:
    own = registry(tmp_path)
    own.register("wine", make_bundle(tmp_path / "a", b"1"))
    own.register("wine", make_bundle(tmp_path / "b", b"2"))
    own.alias("wine", "challenger", 2)
    with pytest.raises(InputError, match="alias challenger"):
        own.delete("wine", 2)
    own.unalias("wine", "challenger")
    own.delete("wine", 2)
    assert not (own.home.models / "wine" / "2").exists()
    assert own.register("wine", make_bundle(tmp_path / "c", b"3")).version == 3


WRITER = """
    import sys
    from pathlib import Path
    from gpuyard.home import Home
    from gpuyard.registry.registry import Registry
    own = Registry(home=Home(path=Path(sys.argv[1])))
    for folder in sys.argv[2:]:
        own.alias("wine", "champion", own.register("wine", Path(folder)).version)
"""


def test_concurrent_writers_get_distinct_versions(tmp_path: Path) -> None:
    writers = []
    for writer in range(3):
        folders = [
            str(make_bundle(tmp_path / f"{writer}-{index}", f"{writer} {index}".encode()))
            for index in range(4)
        ]
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
    import gpuyard.registry.registry as registry
    from gpuyard.home import Home
    home, folder, where = Home(path=Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
    die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    if where == "copied":
        registry.digest_of = die  # only the copy exists
    else:
        registry.sync_tree = die  # renamed into place, not committed
    registry.Registry(home=home).register("wine", folder)
"""


@pytest.mark.parametrize("where", ["copied", "renamed"])
def test_kill_leaves_a_complete_version_or_none(tmp_path: Path, where: str) -> None:
    own = registry(tmp_path)
    own.register("wine", make_bundle(tmp_path / "a", b"1"))
    script = [
        sys.executable,
        "-c",
        textwrap.dedent(KILLED),
        str(own.home.path),
        str(make_bundle(tmp_path / "b", b"2")),
        where,
    ]
    assert subprocess.run(script, check=False).returncode == -signal.SIGKILL
    assert [version.version for version in own.versions("wine")] == [1]
    left = own.home.models / (".incoming" if where == "copied" else "wine/2")
    assert left.exists()
    if where == "renamed":  # the number was never assigned, so the next version gets it
        assert own.register("wine", make_bundle(tmp_path / "c", b"3")).version == 2
        assert (own.home.models / "wine" / "2" / "model.onnx").read_bytes() == b"3"
        assert own.collect() == ()
    else:
        assert len(own.collect()) == 1
    assert list((own.home.models / ".incoming").iterdir()) == []


def test_collect_deletes_folders_without_a_row(tmp_path: Path) -> None:
    own = registry(tmp_path)
    own.register("wine", make_bundle(tmp_path / "a"))
    make_bundle(own.home.models / "wine" / "9")
    assert own.collect() == (str(own.home.models / "wine" / "9"),)
    assert own.get("wine").version == 1
    assert own.collect() == ()


def test_inconsistent_bundle_reports_every_problem(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    bundle = ModelBundle(
        kind="classification",
        trainer="trees",
        inputs=(),
        outputs=(),
        classes=("a",),
        metrics=(Metric(name="loss", value=float("nan")), Metric(name="loss", value=1.0)),
    )
    with pytest.raises(InputError) as caught:
        write_bundle(tmp_path / "x", bundle)
    assert [problem.what for problem in caught.value.problems] == [
        "a classification model has no model.onnx",
        "fewer than two classes",
        "metrics: duplicate name loss",
        "metric loss is not a finite number",
    ]
    assert not (tmp_path / "x" / "model.json").exists()


def test_bundle_files_must_be_inside_the_folder(tmp_path: Path) -> None:
    folder = make_bundle(tmp_path / "a")
    text = (folder / "model.json").read_text().replace('"transform.json"', '"../secret"')
    (folder / "model.json").write_text(text)
    with pytest.raises(InputError, match="outside the bundle"):
        read_bundle(folder)
    linked = make_bundle(tmp_path / "b")
    (tmp_path / "secret").write_text("{}")
    (linked / "transform.json").unlink()
    os.symlink(tmp_path / "secret", linked / "transform.json")
    with pytest.raises(InputError, match="outside the bundle"):
        read_bundle(linked)


def test_bundle_digest_depends_on_contents_only(tmp_path: Path) -> None:
    assert digest_of(make_bundle(tmp_path / "a")) == digest_of(make_bundle(tmp_path / "b"))
    assert digest_of(make_bundle(tmp_path / "a2")) != digest_of(
        make_bundle(tmp_path / "c", b"other")
    )


def test_numbers_beyond_sqlite_are_no_versions(tmp_path: Path) -> None:
    registry = Registry(home=Home(path=tmp_path))
    for number in ("9" * 24, "9" * 5000, "9223372036854775808"):
        with pytest.raises(InputError, match="is not a version"):
            registry.get(f"m/{number}")
    with pytest.raises(InputError):
        registry.alias("m", "champion", 10**24)


def test_version_that_is_no_number_is_a_damaged_ledger(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    Registry(home=home).register("m", make_bundle(tmp_path / "b"))
    with sqlite3.connect(home.ledger) as connection:
        connection.execute("UPDATE model_versions SET version = 'one'")
    with pytest.raises(ExternalError, match="no version number"):
        Registry(home=home).versions("m")


def test_empty_ledger_next_to_models_is_named(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    Registry(home=home).register("m", make_bundle(tmp_path / "b"))
    for path in home.path.glob("ledger.db*"):
        path.unlink()
    home.ledger.touch()
    for read in (Registry(home=home).names, lambda: Registry(home=home).get("m")):
        with pytest.raises(ExternalError, match="is empty"):
            read()
    fresh = Home(path=tmp_path / "fresh")
    fresh.path.mkdir()
    fresh.ledger.touch()
    assert Registry(home=fresh).names() == ()
