"""The model registry: atomic registration, lookup by number or alias, hashes verified on load."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import ExternalError, InputError, closest_match
from gpuyard.home import Home, write_atomic
from gpuyard.registry.bundle import CARD, Metric, ModelBundle, ModelLineage, digest_of, read_bundle
from gpuyard.registry.card import card_text
from gpuyard.registry.folders import abandoned, copied, remove_folder, sync_tree
from gpuyard.registry.names import (
    CHAMPION,
    LATEST,
    MAX_VERSION,
    Reference,
    check_alias,
    check_name,
    read_reference,
)
from gpuyard.registry.tables import TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """A registered model: its bundle, metrics, lineage and aliases."""

    name: str
    version: int
    created_s: float
    digest: str
    folder: str
    aliases: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    lineage: ModelLineage
    bundle: ModelBundle

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def reference(self) -> str:
        """NAME/VERSION."""
        return f"{self.name}/{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasChange:
    """An alias set to a version, or removed (None)."""

    alias: str
    version: int | None
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredMetrics:
    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The models of one state directory."""

    home: Home

    def register(
        self,
        name: str,
        bundle_folder: Path,
        metrics: Sequence[Metric] = (),
        lineage: ModelLineage | None = None,
    ) -> ModelVersion:
        """Copy the bundle as the next version, or return the existing version of the same bytes.

        The copy is renamed into place inside the transaction that inserts its row, so that a kill
        at any moment leaves a complete version or none: a folder without a row is never read.
        """
        check_name(name)
        bundle = read_bundle(bundle_folder)
        given_names = {metric.name for metric in metrics}
        all_metrics = (
            *metrics,
            *(metric for metric in bundle.metrics if metric.name not in given_names),
        )
        lineage = lineage or bundle.lineage
        with copied(bundle_folder, self.home.models) as copy:
            digest = digest_of(copy)
            if read_bundle(copy) != bundle:
                raise InputError.one(
                    str(bundle_folder), "changed while it was copied", "register it again"
                )
            with self._connect() as connection:
                row = connection.execute(
                    "SELECT version FROM model_versions WHERE name = ? AND digest = ?",
                    (name, digest),
                ).fetchone()
                if row:
                    version = int(row["version"])
                else:
                    version = self._insert(connection, name, copy, bundle, all_metrics, lineage)
        return self.get(f"{name}/{version}", verify=False)

    def _insert(
        self,
        connection: sqlite3.Connection,
        name: str,
        copy: Path,
        bundle: ModelBundle,
        metrics: tuple[Metric, ...],
        lineage: ModelLineage,
    ) -> int:
        row = connection.execute(
            "SELECT last FROM model_numbers WHERE name = ?", (name,)
        ).fetchone()
        version = (int(row["last"]) if row else 0) + 1
        now_s = time.time()
        folder = self._folder(name, version)
        if folder.exists():  # renamed by a process that was killed before its commit
            remove_folder(folder, self.home.models)
        if not (copy / CARD).exists():
            write_atomic(copy / CARD, card_text(name, version, now_s, bundle, metrics, lineage))
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(copy, folder)
        sync_tree(folder.parent)
        connection.execute("INSERT OR REPLACE INTO model_numbers VALUES (?, ?)", (name, version))
        texts = (dump_json(_StoredMetrics(metrics=metrics)), dump_json(lineage), dump_json(bundle))
        connection.execute(
            "INSERT INTO model_versions VALUES (?, ?, ?, ?, ?, ?, ?)",
            (name, version, now_s, digest_of(folder), *texts),
        )
        return version

    def names(self) -> tuple[str, ...]:
        """Return the name of every model that has a version."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT DISTINCT name FROM model_versions ORDER BY name"
            ).fetchall()
        return tuple(row["name"] for row in rows)

    def versions(self, name: str) -> tuple[ModelVersion, ...]:
        """Return the versions of a model, oldest first, without verifying files."""
        check_name(name)
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT * FROM model_versions WHERE name = ? ORDER BY version", (name,)
            ).fetchall()
            versions = tuple(self._version(connection, row) for row in rows)
        if not versions:
            self._no_such(name)
        return versions

    def get(self, reference: str, *, verify: bool = True) -> ModelVersion:
        """Return the referenced version; with `verify`, check the hash of every file."""
        parsed = read_reference(reference)
        with self._reading() as connection:
            row = self._row(connection, parsed)
            version = self._version(connection, row) if row else None
        if version is None:
            self._no_such(parsed.name, parsed)
        if verify:
            read_bundle(version.path)
            if digest_of(version.path) != version.digest:
                raise InputError.one(
                    version.reference,
                    "model.json has changed since it was registered",
                    "delete the version and register it again",
                )
        return version

    def alias(self, name: str, alias: str, version: int) -> ModelVersion:
        """Point the alias at the version atomically, and return the version."""
        check_alias(alias)
        target = read_reference(f"{name}/{version}")
        with self._connect() as connection:
            row = self._row(connection, target)
            if row:
                connection.execute(
                    "INSERT OR REPLACE INTO model_aliases VALUES (?, ?, ?)", (name, alias, version)
                )
                connection.execute(
                    "INSERT INTO model_alias_changes VALUES (?, ?, ?, ?)",
                    (name, alias, version, time.time()),
                )
        if not row:
            self._no_such(name, target)
        return self.get(str(target), verify=False)

    def unalias(self, name: str, alias: str) -> None:
        with self._connect() as connection:
            removed_count = connection.execute(
                "DELETE FROM model_aliases WHERE name = ? AND alias = ?", (name, alias)
            ).rowcount
            if removed_count:
                connection.execute(
                    "INSERT INTO model_alias_changes VALUES (?, ?, NULL, ?)",
                    (name, alias, time.time()),
                )
        if not removed_count:
            self._no_such(name, Reference(name=name, alias=alias))

    def changes(self, name: str) -> tuple[AliasChange, ...]:
        """Return the alias history of a model, oldest first."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT alias, version, at_s FROM model_alias_changes"
                " WHERE name = ? ORDER BY rowid",
                (name,),
            ).fetchall()
        return tuple(
            AliasChange(alias=row["alias"], version=row["version"], at_s=row["at_s"])
            for row in rows
        )

    def delete(self, name: str, version: int) -> None:
        """Delete a version that no alias points to; its number is never reused."""
        model_version = self.get(f"{check_name(name)}/{version}", verify=False)
        with self._connect() as connection:
            aliased = connection.execute(
                "SELECT alias FROM model_aliases WHERE name = ? AND version = ?", (name, version)
            ).fetchall()
            if aliased:
                names = ", ".join(row["alias"] for row in aliased)
                raise InputError.one(
                    model_version.reference,
                    f"has the alias {names}",
                    "point the alias at another version first",
                )
            connection.execute(
                "DELETE FROM model_versions WHERE name = ? AND version = ?", (name, version)
            )
        remove_folder(model_version.path, self.home.models)

    def collect(self) -> tuple[str, ...]:
        """Delete folders without a row and copies left by killed processes; return their paths."""
        models, removed = self.home.models, list(abandoned(self.home.models, time.time()))
        with self._connect() as connection:  # nobody can register while the lock is held
            rows = connection.execute("SELECT name, version FROM model_versions").fetchall()
            registered = {self._folder(row["name"], row["version"]) for row in rows}
            for path in sorted(models.glob("*/*")):
                if path.parent.name[:1] != "." and path.name.isdigit() and path not in registered:
                    remove_folder(path, models)
                    removed.append(path)
        for path in removed:
            shutil.rmtree(path, ignore_errors=True)
        return tuple(str(path) for path in removed)

    def _connect(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.home.connect("registry", TABLES)

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.home.reading("registry", TABLES)

    def _folder(self, name: str, version: int) -> Path:
        return self.home.models / name / str(version)

    def _row(self, connection: sqlite3.Connection, reference: Reference) -> sqlite3.Row | None:
        select = "SELECT v.* FROM model_versions v"
        cursor = None
        if reference.version is not None:
            if reference.version > MAX_VERSION:
                return None
            cursor = connection.execute(
                f"{select} WHERE name = ? AND version = ?", (reference.name, reference.version)
            )
        elif reference.alias != LATEST:
            cursor = connection.execute(
                f"{select} JOIN model_aliases USING (name, version) WHERE name = ? AND alias = ?",
                (reference.name, reference.alias or CHAMPION),
            )
        row: sqlite3.Row | None = cursor.fetchone() if cursor else None
        if row is None and reference.version is None and reference.alias in ("", LATEST):
            newest = connection.execute(
                f"{select} WHERE name = ? ORDER BY version DESC LIMIT 1", (reference.name,)
            )
            row = newest.fetchone()
        return row

    def _version(self, connection: sqlite3.Connection, row: sqlite3.Row) -> ModelVersion:
        name, version = str(row["name"]), row["version"]
        if not isinstance(version, int):  # SQLite keeps any value in any column
            raise ExternalError(
                f"{self.home.ledger}: {name}",
                f'"{str(version)[:40]}" is no version number: the ledger is damaged',
                "restore it from a backup, or use another --home",
            )
        aliases = connection.execute(
            "SELECT alias FROM model_aliases WHERE name = ? AND version = ? ORDER BY alias",
            (name, version),
        ).fetchall()
        folder = self._folder(name, version)
        return ModelVersion(
            name=name,
            version=version,
            created_s=row["created_s"],
            digest=row["digest"],
            folder=str(folder),
            aliases=tuple(alias["alias"] for alias in aliases),
            metrics=load_json(row["metrics"], _StoredMetrics).metrics,
            lineage=load_json(row["lineage"], ModelLineage),
            bundle=load_json(row["bundle"], ModelBundle),
        )

    def _no_such(self, name: str, reference: Reference | None = None) -> NoReturn:
        known = self.names()
        if name not in known:
            meant = closest_match(name, known)
            fix = f'did you mean "{meant}"?' if meant else "list them with `gpuyard models`"
            raise InputError.one(f'model "{name}"', f"is not registered in {self.home.path}", fix)
        versions = [f"{name}/{item.version}" for item in self.versions(name)]
        aliases = [f"{name}@{alias}" for item in self.versions(name) for alias in item.aliases]
        raise InputError.one(
            f'model "{reference}"', "is not registered", f"use {', '.join((*versions, *aliases))}"
        )
