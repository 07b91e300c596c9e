"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import signal

# A shell that starts the suite in the background hands SIGINT and SIGQUIT down as ignored, to children too; so does
# `nohup` with SIGHUP.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
