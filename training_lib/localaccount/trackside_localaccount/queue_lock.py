"""One lock for all queues: moto's server answers from many threads, and its queues lose messages without one.

`Queue.delete_message` builds a new list of messages and then puts it in the old one's place; what was sent in between
is gone.
"""

from __future__ import annotations

import threading

QUEUE_LOCK = threading.RLock()
