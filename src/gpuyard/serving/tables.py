"""SQL schema of the endpoints and its migrations; `TABLES[i]` migrates version i to i + 1."""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE endpoints (
        name TEXT PRIMARY KEY, models TEXT NOT NULL, host TEXT NOT NULL, port INTEGER NOT NULL,
        pid INTEGER NOT NULL, born TEXT NOT NULL, workers INTEGER NOT NULL,
        started_s REAL NOT NULL, ended_s REAL, folder TEXT NOT NULL
    )
    """,
    "ALTER TABLE endpoints ADD COLUMN canaries TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE endpoints ADD COLUMN tls_cert TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE endpoints ADD COLUMN grpc_url TEXT NOT NULL DEFAULT ''",
)
