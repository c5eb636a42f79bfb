"""`python -m gpuyard.serving.start SETTINGS`: a server from saved settings, as `deploy` starts it in the background."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuyard.document import load_json
from gpuyard.errors import GpuyardError, RefusedError
from gpuyard.serving.server import serve
from gpuyard.serving.spec import Settings

__all__ = ["main"]


def main(path: Path) -> int:
    """Serves until it is told to stop; gives the exit code."""
    try:
        serve(load_json(path.read_text(encoding="utf-8"), Settings, str(path)))
    except GpuyardError as error:
        sys.stderr.write(f"{error}\n")
        return 4 if isinstance(error, RefusedError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
