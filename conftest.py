"""What holds for every test of the repository, the kernel's and the plugins'."""

from __future__ import annotations

import gc
import signal

from tests.drawn import load_profile

load_profile()
# A shell starts a background job with Ctrl-C ignored, and every command that the tests start would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A collection looks at the objects of thousands of collected tests.
gc.set_threshold(50_000, 20, 20)
