"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import signal

# A shell that starts the suite in the background hands SIGINT and SIGQUIT down as ignored, to children too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
