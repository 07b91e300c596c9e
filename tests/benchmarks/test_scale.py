"""The simulation at scale: every job is judged or named, none is judged or stopped twice, and it is what is deployed."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale import __main__ as command
from benchmarks.scale.chart import chart
from benchmarks.scale.clock import Clock, Process
from benchmarks.scale.cost import PRICES, Line, idle_lines, read_prices, table
from benchmarks.scale.design import MODES, Design, before, deployed
from benchmarks.scale.figures import figures_of
from benchmarks.scale.quotas import Quotas
from benchmarks.scale.services import Limit, spread
from benchmarks.scale.simulation import Load, Result, Simulation, named_as_lost
from stacks.assembly import assembly
from stacks.queue_names import title_of

PRICE_LIST = dict(read_prices())
