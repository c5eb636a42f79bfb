"""The key of this user, and the signatures of rendered folders."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gpuyard.app.apply import prepare
from gpuyard.cli.main import main
from gpuyard.errors import ExternalError, InputError
from gpuyard.provision.apply.signing import (
    KEY_FILE,
    SIGNATURE,
    check_signature,
    created_key,
    existing_key,
    signature,
)

from .folders import fresh, render


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "gpuyard"


def test_key_is_created_once_and_private(state: Path) -> None:
    first = created_key()
    assert stat.S_IMODE((state / KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert created_key() == first == existing_key("x")
    assert first.secret.hex() not in repr(first)
    assert repr(first.secret) not in repr(first)
    assert [path.name for path in state.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_key_that_others_can_read_or_write_is_refused(state: Path, mode: int) -> None:
    created_key()
    (state / KEY_FILE).chmod(mode)
    with pytest.raises(ExternalError, match="other users"):
        existing_key("x")


def test_key_in_a_directory_that_others_can_write_to_is_refused(state: Path) -> None:
    created_key()
    state.chmod(0o770)
    with pytest.raises(ExternalError, match="other users can write"):
        existing_key("x")


def test_key_that_is_a_link_or_truncated_is_refused(state: Path, tmp_path: Path) -> None:
    created_key()
    (state / KEY_FILE).rename(tmp_path / "elsewhere")
    (state / KEY_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ExternalError, match="cannot be read"):
        existing_key("x")
    (state / KEY_FILE).unlink()
    (state / KEY_FILE).touch(mode=0o600)
    with pytest.raises(ExternalError, match="does not hold 32 bytes"):
        created_key()


def test_mac_separates_purposes_and_texts(state: Path) -> None:
    key = created_key()
    texts = [("a", "b", "c"), ("a", "bc"), ("a", "b", "", "c"), ("ab", "c"), ("a", "c", "b")]
    assert len({key.mac(*parts) for parts in texts}) == len(texts)


def test_signature_of_changed_text_or_other_key_is_refused(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = created_key()
    text = signature("{}", key).text
    check_signature("{}", text, key, "d")
    for deployment, signed in (("{ }", text), ("{}", None), ("{}", ""), ("{}", "0" * 64)):
        with pytest.raises(InputError, match=SIGNATURE):
            check_signature(deployment, signed, key, "d")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(InputError, match="another machine"):
        check_signature("{}", text, created_key(), "d")


def test_folder_is_refused_without_its_key_or_signature(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = render(tmp_path / "sample", "a2-highgpu-1g", "single-node", "spot")
    prepare(folder)
    bare = fresh(folder, tmp_path / "bare")
    (bare / SIGNATURE).unlink()
    for verb in ("--apply", "--destroy"):
        assert main(["provision", str(bare), verb, "--yes", "--max-cost", "1000"]) == 2
    (state / KEY_FILE).unlink()
    for verb in ("--apply", "--destroy"):
        assert main(["provision", str(folder), verb, "--yes", "--max-cost", "1000"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("render it again on this machine") == 4
    assert errors.count("there is no key") == 2
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    created_key()
    with pytest.raises(InputError, match="rendered on another machine"):
        prepare(folder)


def test_files_are_rendered_without_a_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    folder = render(tmp_path / "sample", "a2-highgpu-1g", "single-node", "spot")
    assert not (folder / SIGNATURE).exists()
    with pytest.raises((InputError, ExternalError)):
        prepare(folder)


def test_rendering_again_deletes_no_file_outside_the_folder(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine", encoding="utf-8")
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
    seal = folder / "deployment.json"
    for name in ("../precious", str(precious)):
        seal.write_text(seal.read_text().replace('"call.sh"', f'"{name}"'), encoding="utf-8")
        render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
        assert precious.read_text() == "mine"
