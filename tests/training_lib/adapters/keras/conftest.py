"""The backend of these tests: torch, unless KERAS_BACKEND names another one. Keras reads it once, when imported."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")  # noqa: TID251 - Keras has no other way in
