"""`python -m gpuyard.serving.start SETTINGS`: run a server from saved settings."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuyard.document.encode import load_json_file
from gpuyard.errors import EXIT_EXTERNAL_ERROR, EXIT_WRONG_INPUT, ExternalError, GpuyardError
from gpuyard.serving.server import serve
from gpuyard.serving.spec import ServerSettings


def main(path: Path) -> int:
    """Serve until stopped and return the exit code."""
    try:
        serve(load_json_file(path, ServerSettings))
    except GpuyardError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_EXTERNAL_ERROR if isinstance(error, ExternalError) else EXIT_WRONG_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
