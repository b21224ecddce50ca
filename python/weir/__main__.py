# SPDX-License-Identifier: Apache-2.0
"""The weir command line: `python -m weir`, and the program `weir` that the wheel brings."""

import os
import signal
import sys

from . import _weir


def main() -> int:
    run = getattr(_weir, "_run_command_line", None)
    if run is None:
        print("weir: this build has no command line (WEIR_BUILD_TOOLS)", file=sys.stderr)
        return 1
    # No Python runs that could answer them. Whoever started this program may have had it ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    program = [sys.executable, "-m", "weir"]
    return run([os.fsencode(word) for word in sys.argv[1:]], [os.fsencode(word) for word in program])


if __name__ == "__main__":
    sys.exit(main())
