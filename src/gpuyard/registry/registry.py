"""Versions of models in the ledger: registered whole, found by number or alias, hashes verified on load."""

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

from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError, nearest
from gpuyard.home import Home, write_whole
from gpuyard.registry.bundle import CARD, Bundle, Lineage, Metric, digest_of, read_bundle
from gpuyard.registry.card import card_text
from gpuyard.registry.folders import abandoned, copied, put_away, sync_tree
from gpuyard.registry.names import CHAMPION, LATEST, Reference, check_alias, check_name, read_reference

__all__ = ["AliasChange", "ModelVersion", "Registry"]

TABLES = (
    """
    CREATE TABLE model_versions (
        name TEXT NOT NULL, version INTEGER NOT NULL, created_s REAL NOT NULL, digest TEXT NOT NULL,
        metrics TEXT NOT NULL, lineage TEXT NOT NULL, bundle TEXT NOT NULL, PRIMARY KEY (name, version)
    );
    CREATE UNIQUE INDEX model_digests ON model_versions (name, digest);
    CREATE TABLE model_numbers (name TEXT PRIMARY KEY, last INTEGER NOT NULL);
    CREATE TABLE model_aliases (
        name TEXT NOT NULL, alias TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (name, alias),
        FOREIGN KEY (name, version) REFERENCES model_versions (name, version)
    );
    CREATE TABLE model_alias_changes (
        name TEXT NOT NULL, alias TEXT NOT NULL, version INTEGER, at_s REAL NOT NULL
    )
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """One registered model: its bundle, what was measured on it, and the names that point to it."""

    name: str
    version: int
    created_s: float
    digest: str
    folder: str
    aliases: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    lineage: Lineage
    bundle: Bundle

    @property
    def path(self) -> Path:
        """The folder of its bundle."""
        return Path(self.folder)

    @property
    def reference(self) -> str:
        """NAME/VERSION."""
        return f"{self.name}/{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasChange:
    """An alias was pointed at a version, or (None) taken away."""

    alias: str
    version: int | None
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """Metrics as one JSON text."""

    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The models of one state directory."""

    home: Home

    def register(
        self, name: str, bundle_folder: Path, metrics: Sequence[Metric] = (), lineage: Lineage | None = None
    ) -> ModelVersion:
        """Copies the bundle and makes it the next version; the same bytes again give the version that stands.

        The copy is renamed into its place inside the transaction that inserts its row, so a kill at any moment
        leaves either the whole version or none: a folder without a row is never read, and is reused or collected.
        """
        check_name(name)
        bundle = read_bundle(bundle_folder)
        given = {metric.name for metric in metrics}
        measured = (*metrics, *(metric for metric in bundle.metrics if metric.name not in given))
        made_from = lineage or bundle.lineage
        with copied(bundle_folder, self.home.models) as copy:
            digest = digest_of(copy)
            if read_bundle(copy) != bundle:
                raise InputError.one(str(bundle_folder), "changed while it was copied", "register it again")
            with self._connect() as connection:
                row = connection.execute(
                    "SELECT version FROM model_versions WHERE name = ? AND digest = ?", (name, digest)
                ).fetchone()
                version = (
                    int(row["version"]) if row else self._insert(connection, name, copy, bundle, measured, made_from)
                )
        return self.get(f"{name}/{version}", verify=False)

    def _insert(
        self, connection: sqlite3.Connection, name: str, copy: Path, bundle: Bundle,
        metrics: tuple[Metric, ...], lineage: Lineage,
    ) -> int:  # fmt: skip
        """Takes the next number, puts the copy in its place and inserts its row; gives the number."""
        row = connection.execute("SELECT last FROM model_numbers WHERE name = ?", (name,)).fetchone()
        version, now_s = (int(row["last"]) if row else 0) + 1, time.time()
        place = self._folder(name, version)
        if place.exists():  # renamed by a process that was killed before it could commit
            put_away(place, self.home.models)
        if not (copy / CARD).exists():
            write_whole(copy / CARD, card_text(name, version, now_s, bundle, metrics, lineage))
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(copy, place)
        sync_tree(place.parent)
        connection.execute("INSERT OR REPLACE INTO model_numbers VALUES (?, ?)", (name, version))
        texts = (dump_json(_Measured(metrics=metrics)), dump_json(lineage), dump_json(bundle))
        connection.execute(
            "INSERT INTO model_versions VALUES (?, ?, ?, ?, ?, ?, ?)", (name, version, now_s, digest_of(place), *texts)
        )
        return version

    def names(self) -> tuple[str, ...]:
        """Every model that has a version."""
        with self._reading() as connection:
            rows = connection.execute("SELECT DISTINCT name FROM model_versions ORDER BY name").fetchall()
        return tuple(row["name"] for row in rows)

    def versions(self, name: str) -> tuple[ModelVersion, ...]:
        """Every version of a model, oldest first; files are not hashed."""
        check_name(name)
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT * FROM model_versions WHERE name = ? ORDER BY version", (name,)
            ).fetchall()
            found = tuple(self._version(connection, row) for row in rows)
        if not found:
            self._no_such(name)
        return found

    def get(self, reference: str, *, verify: bool = True) -> ModelVersion:
        """The version that `NAME`, `NAME@ALIAS` or `NAME/NUMBER` names; with `verify`, every file's hash is checked."""
        wanted = read_reference(reference)
        with self._reading() as connection:
            row = self._row(connection, wanted)
            found = self._version(connection, row) if row else None
        if found is None:
            self._no_such(wanted.name, wanted)
        if verify:
            read_bundle(found.path)
            if digest_of(found.path) != found.digest:
                raise InputError.one(
                    found.reference, "its model.json is not the one that was registered", "delete it and register again"
                )
        return found

    def alias(self, name: str, alias: str, version: int) -> ModelVersion:
        """Points the alias at the version, in one step for every reader; gives the version."""
        check_alias(alias)
        wanted = Reference(name=check_name(name), version=version)
        with self._connect() as connection:
            row = self._row(connection, wanted)
            if row:
                connection.execute("INSERT OR REPLACE INTO model_aliases VALUES (?, ?, ?)", (name, alias, version))
                connection.execute(
                    "INSERT INTO model_alias_changes VALUES (?, ?, ?, ?)", (name, alias, version, time.time())
                )
        if not row:
            self._no_such(name, wanted)
        return self.get(str(wanted), verify=False)

    def unalias(self, name: str, alias: str) -> None:
        """Takes the alias away."""
        with self._connect() as connection:
            gone = connection.execute("DELETE FROM model_aliases WHERE name = ? AND alias = ?", (name, alias)).rowcount
            if gone:
                connection.execute("INSERT INTO model_alias_changes VALUES (?, ?, NULL, ?)", (name, alias, time.time()))
        if not gone:
            self._no_such(name, Reference(name=name, alias=alias))

    def changes(self, name: str) -> tuple[AliasChange, ...]:
        """Where the aliases of a model have pointed, oldest first."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT alias, version, at_s FROM model_alias_changes WHERE name = ? ORDER BY rowid", (name,)
            ).fetchall()
        return tuple(AliasChange(alias=row["alias"], version=row["version"], at_s=row["at_s"]) for row in rows)

    def delete(self, name: str, version: int) -> None:
        """Removes a version that no alias points to; its number is not given again."""
        found = self.get(f"{check_name(name)}/{version}", verify=False)
        with self._connect() as connection:
            held = connection.execute(
                "SELECT alias FROM model_aliases WHERE name = ? AND version = ?", (name, version)
            ).fetchall()
            if held:
                names = ", ".join(row["alias"] for row in held)
                raise InputError.one(found.reference, f"is {names}", "point the alias at another version first")
            connection.execute("DELETE FROM model_versions WHERE name = ? AND version = ?", (name, version))
        put_away(found.path, self.home.models)

    def collect(self) -> tuple[str, ...]:
        """Removes folders that no row names and copies that a killed process left; gives their paths."""
        models, gone = self.home.models, list(abandoned(self.home.models, time.time()))
        with self._connect() as connection:  # no one can register while the lock is held
            rows = connection.execute("SELECT name, version FROM model_versions").fetchall()
            standing = {self._folder(row["name"], row["version"]) for row in rows}
            for path in sorted(models.glob("*/*")):
                if path.parent.name[:1] != "." and path.name.isdigit() and path not in standing:
                    put_away(path, models)
                    gone.append(path)
        for path in gone:
            shutil.rmtree(path, ignore_errors=True)
        return tuple(str(path) for path in gone)

    def _connect(self) -> AbstractContextManager[sqlite3.Connection]:
        """The ledger with the registry's tables."""
        return self.home.connect("registry", TABLES)

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """The ledger as it is now, to read."""
        return self.home.reading("registry", TABLES)

    def _folder(self, name: str, version: int) -> Path:
        """Where a version's files stand."""
        return self.home.models / name / str(version)

    def _row(self, connection: sqlite3.Connection, wanted: Reference) -> sqlite3.Row | None:
        """The row that a reference names."""
        select, found = "SELECT v.* FROM model_versions v", None
        if wanted.version is not None:
            found = connection.execute(f"{select} WHERE name = ? AND version = ?", (wanted.name, wanted.version))
        elif wanted.alias != LATEST:
            found = connection.execute(
                f"{select} JOIN model_aliases USING (name, version) WHERE name = ? AND alias = ?",
                (wanted.name, wanted.alias or CHAMPION),
            )
        row: sqlite3.Row | None = found.fetchone() if found else None
        if row is None and wanted.version is None and wanted.alias in ("", LATEST):
            newest = connection.execute(f"{select} WHERE name = ? ORDER BY version DESC LIMIT 1", (wanted.name,))
            row = newest.fetchone()
        return row

    def _version(self, connection: sqlite3.Connection, row: sqlite3.Row) -> ModelVersion:
        """The value of a row."""
        name, version = str(row["name"]), int(row["version"])
        aliases = connection.execute(
            "SELECT alias FROM model_aliases WHERE name = ? AND version = ? ORDER BY alias", (name, version)
        ).fetchall()
        folder = self._folder(name, version)
        return ModelVersion(
            name=name, version=version, created_s=row["created_s"], digest=row["digest"], folder=str(folder),
            aliases=tuple(alias["alias"] for alias in aliases),
            metrics=load_json(row["metrics"], _Measured).metrics, lineage=load_json(row["lineage"], Lineage),
            bundle=load_json(row["bundle"], Bundle),
        )  # fmt: skip

    def _no_such(self, name: str, wanted: Reference | None = None) -> NoReturn:
        """Says what there is instead."""
        known = self.names()
        if name not in known:
            meant = nearest(name, known)
            fix = f'did you mean "{meant}"?' if meant else "`gpuyard models` lists them"
            raise InputError.one(f'model "{name}"', f"is not registered in {self.home.path}", fix)
        there = [f"{name}/{item.version}" for item in self.versions(name)]
        aliases = [f"{name}@{alias}" for item in self.versions(name) for alias in item.aliases]
        raise InputError.one(f'model "{wanted}"', "is not registered", f"use {', '.join((*there, *aliases))}")
