"""Property tests: no deadline, for a busy machine is not a failure; the same examples every time in CI."""

import os

from hypothesis import settings

settings.register_profile("house", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("house")
