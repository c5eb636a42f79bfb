"""SQL schema of the ledger and its migrations; `TABLES[i]` migrates version i to i + 1."""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
        engine TEXT NOT NULL,
        folder TEXT NOT NULL,
        workload TEXT NOT NULL,
        workload_hash TEXT NOT NULL,
        created_s REAL NOT NULL,
        ended_s REAL,
        error TEXT NOT NULL DEFAULT '',
        versions TEXT NOT NULL,
        driver TEXT NOT NULL,
        seen_s REAL NOT NULL,
        stop_asked INTEGER NOT NULL DEFAULT 0,
        CHECK ((state = 'running') = (ended_s IS NULL))
    );
    CREATE TABLE stages (
        run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        place INTEGER NOT NULL,
        name TEXT NOT NULL,
        state TEXT NOT NULL CHECK (
            state IN ('pending', 'running', 'done', 'failed', 'cancelled', 'skipped')
        ),
        attempt INTEGER NOT NULL DEFAULT 0,
        handle TEXT,
        started_s REAL,
        ended_s REAL,
        result TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '',
        cost_usd REAL NOT NULL DEFAULT 0,
        PRIMARY KEY (run, name),
        CHECK ((state IN ('pending', 'running')) = (ended_s IS NULL))
    );
    CREATE TABLE metrics (
        run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        stage TEXT NOT NULL,
        name TEXT NOT NULL,
        step INTEGER NOT NULL,
        value REAL,
        time_s REAL,
        PRIMARY KEY (run, stage, name, step)
    ) WITHOUT ROWID;
    CREATE TABLE tails (
        run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        stage TEXT NOT NULL,
        path TEXT NOT NULL,
        read_bytes INTEGER NOT NULL,
        PRIMARY KEY (run, stage, path)
    );
    CREATE TABLE artefacts (
        run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        path TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (run, path)
    )
    """,
    "ALTER TABLE stages ADD COLUMN exit_code INTEGER",
    """
    ALTER TABLE runs ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT ''
    """,
    "ALTER TABLE runs ADD COLUMN until TEXT NOT NULL DEFAULT ''",
)
