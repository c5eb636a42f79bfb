"""The profile of prepared data, computed on first view and cached next to the data."""

from __future__ import annotations

import threading
from dataclasses import replace
from html import escape
from pathlib import Path

from gpuyard.datasets.manifest import DatasetManifest
from gpuyard.datasets.profile.measures import DatasetProfile
from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.errors import InputError
from gpuyard.home import Home, write_atomic
from gpuyard.report.profile_page import profile_sections
from gpuyard.units import BYTES, show
from gpuyard.web.data_view import find_manifest
from gpuyard.web.view import Fragment, PageRequest, WebPage

MOST_BYTES = 2e9  # of shards; more is for the command, which shows how far it is
ONE_AT_A_TIME = threading.Lock()


def profile_view(request: PageRequest) -> WebPage:
    """The rows that a model is trained on: distributions, ties with the label, what looks wrong."""
    name = request.words["name"]
    manifest = find_manifest(request.home, name)
    body = _why_not(request.home, name, manifest)
    if not body:
        body = "".join(profile_sections(_profile(request.home, name, manifest)))
    return WebPage(
        title=f"Profile of {name}",
        fragments=(Fragment(id="profile", html=body),),
        is_live=False,
        above=(f"/data/{name}", f"Data {name}"),
    )


def _why_not(home: Home, name: str, manifest: DatasetManifest) -> str:
    """Why there is no profile here; nothing where there is one."""
    split = next(iter(manifest.splits), None)
    if manifest.kind != "table" or split is None or not split.shards:
        return f"<p>A profile is of a table; this is {escape(manifest.kind)}.</p>"
    size_bytes = sum(shard.size_bytes for shard in split.shards)
    if size_bytes > MOST_BYTES and not _path(home, name, manifest).exists():
        words = f"{show(size_bytes, BYTES)} take a while:"
        command = f"gpuyard data profile {home.data / name / split.name} --html profile.html"
        return f"<p>{escape(words)} <code>{escape(command)}</code></p>"
    return ""


def _path(home: Home, name: str, manifest: DatasetManifest) -> Path:
    """Where the profile of this version is kept."""
    return home.path / "profiles" / f"{name}-{manifest.version}.json"


def _profile(home: Home, name: str, manifest: DatasetManifest) -> DatasetProfile:
    """The profile, read or measured; one at a time, for measuring takes the whole machine."""
    path, split = _path(home, name, manifest), manifest.splits[0].name
    with ONE_AT_A_TIME:
        if path.exists():
            try:
                return load_json_file(path, DatasetProfile)
            except InputError:
                pass  # another version wrote it
        from gpuyard.app.profile import profile_source  # needs gpuyard[run]

        profile = replace(
            profile_source(str(home.data / name / split), manifest.label or None),
            source=f"{name}, {split}",
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, dump_json(profile))
        return profile
