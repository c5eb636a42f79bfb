"""No waiting for the disk: test_journal proves that the journal is synced."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make fsync return at once; it matters only when the power fails."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
