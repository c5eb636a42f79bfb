"""SQL schema of the model registry; `TABLES[i]` migrates version i to i + 1."""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE model_versions (
        name TEXT NOT NULL, version INTEGER NOT NULL, created_s REAL NOT NULL, digest TEXT NOT NULL,
        metrics TEXT NOT NULL, lineage TEXT NOT NULL, bundle TEXT NOT NULL,
        PRIMARY KEY (name, version)
    );
    CREATE UNIQUE INDEX model_digests ON model_versions (name, digest);
    CREATE TABLE model_numbers (name TEXT PRIMARY KEY, last INTEGER NOT NULL);
    CREATE TABLE model_aliases (
        name TEXT NOT NULL, alias TEXT NOT NULL, version INTEGER NOT NULL,
        PRIMARY KEY (name, alias),
        FOREIGN KEY (name, version) REFERENCES model_versions (name, version)
    );
    CREATE TABLE model_alias_changes (
        name TEXT NOT NULL, alias TEXT NOT NULL, version INTEGER, at_s REAL NOT NULL
    )
    """,
)
