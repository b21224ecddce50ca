# SPDX-License-Identifier: Apache-2.0
"""Waits for a process that says nothing."""

import _thread
import contextlib
import os
import signal
import threading

import pytest


@contextlib.contextmanager
def interrupted_while_stopped(process):
    """Stop the process, and have Ctrl-C end what is done meanwhile. The process goes on afterwards."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # until all its threads have stopped
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # it may come before the wait
            threading.Timer(0.05, _thread.interrupt_main).start()
            yield
    finally:
        signal.signal(signal.SIGINT, before)
        process.send_signal(signal.SIGCONT)
