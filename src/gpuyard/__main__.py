"""`python -m gpuyard`."""

import sys

from gpuyard.cli.main import main

sys.exit(main())
