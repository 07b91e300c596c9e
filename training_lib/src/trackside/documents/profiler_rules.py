"""The profiler rules of SageMaker Debugger: their parameters and defaults.

Two sets of defaults exist. `aws-sdk` are those that the SDK's classes always sent; `aws-docs` are those of the
documentation, which held only for requests written by hand. The rules themselves are in `trackside.speed.rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trackside.contracts.errors import Problem, did_you_mean
from trackside.contracts.rule_catalogue import ParameterDescription
from trackside.documents.rule_names import PARAMETER_ALIASES, RULE_IDS, known_rule

REPORT = "profiler-report"
SCAN_INTERVAL = "scan_interval_us"  # microseconds between two looks of the original at the samples


@dataclass(frozen=True)
class ProfilerParameter:
    """One parameter, with its default in each preset. None: no default."""

    description: ParameterDescription
    sdk_default: float | str | None
    docs_default: float | str | None


def _percent(name: str, default: float, docs: float | None = None) -> ProfilerParameter:
    described = ParameterDescription(name, "number", default, "percent", 0, 100)
    return ProfilerParameter(described, default, default if docs is None else docs)


def _count(name: str, default: int, docs: int | None = None) -> ProfilerParameter:
    described = ParameterDescription(name, "integer", default, "", 1)
    return ProfilerParameter(described, default, default if docs is None else docs)


def _number(name: str, default: float, docs: float | None = None) -> ProfilerParameter:
    described = ParameterDescription(name, "number", default, "", 0)
    return ProfilerParameter(described, default, default if docs is None else docs)


def _text(name: str) -> ProfilerParameter:
    return ProfilerParameter(ParameterDescription(name, "text", "", ""), None, None)


_SCAN = _count(SCAN_INTERVAL, 60_000_000)

# https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-profiler-rules.html, and smdebug_rulesconfig 1.0.1
_TABLE: Mapping[str, tuple[ProfilerParameter, ...]] = {
    "batch-size": (
        _percent("cpu_threshold_p95", 70),
        _percent("gpu_threshold_p95", 70),
        _percent("gpu_memory_threshold_p95", 70),
        _count("patience", 1000, docs=100),
        _count("window", 500),
        _SCAN,
    ),
    "cpu-bottleneck": (
        _percent("threshold", 50),
        _percent("gpu_threshold", 10),
        _percent("cpu_threshold", 90),
        _count("patience", 1000, docs=100),
        _SCAN,
    ),
    "dataloader": (_number("min_threshold", 70), _number("max_threshold", 200), _SCAN),
    "gpu-memory-increase": (
        _percent("increase", 5, docs=10),
        _count("patience", 1000, docs=100),
        _count("window", 10, docs=500),
        _SCAN,
    ),
    "io-bottleneck": (
        _percent("threshold", 50),
        _percent("gpu_threshold", 10, docs=70),
        _percent("io_threshold", 50),
        _count("patience", 1000),
        _SCAN,
    ),
    "load-balancing": (_number("threshold", 0.5), _count("patience", 1000, docs=10), _SCAN),
    "low-gpu-utilization": (
        _percent("threshold_p95", 70),
        _percent("threshold_p5", 10),
        _count("window", 500),
        _count("patience", 1000),
        _SCAN,
    ),
    "max-initialization-time": (_number("threshold", 20), _SCAN),
    "overall-framework-metrics": (_SCAN,),
    "overall-system-usage": (_SCAN,),
    "step-outlier": (_number("stddev", 3, docs=5), _text("mode"), _count("n_outliers", 10), _SCAN),
    REPORT: (_text("opt_out_telemetry"), _SCAN),
}
PROFILER_RULES: Mapping[str, Mapping[str, ProfilerParameter]] = {
    rule_id: {parameter.description.name: parameter for parameter in parameters}
    for rule_id, parameters in _TABLE.items()
}


def default_parameters(rule_id: str, *, preset: str) -> dict[str, float | str | None]:
    """Return the defaults of a rule in a preset: "aws-sdk"; any other means the documentation's.

    The report has none of its own: it runs the others with theirs.
    """
    if rule_id == REPORT:
        return {}
    return {
        name: parameter.sdk_default if preset == "aws-sdk" else parameter.docs_default
        for name, parameter in PROFILER_RULES[rule_id].items()
    }


def parameter_problems(rule_id: str, parameters: Mapping[str, str], *, where: str) -> list[Problem]:
    """Return a problem for every unknown name and every wrong value. Aliases must have been replaced before."""
    problems = []
    for name, text in parameters.items():
        parameter = find_parameter(rule_id, name)
        if parameter is None:
            fix = did_you_mean(name, [*PROFILER_RULES[rule_id], *PARAMETER_ALIASES.get(rule_id, ())])
            problems.append(Problem(where, f"{RULE_IDS[rule_id]} has no parameter {name!r}.", fix))
            continue
        try:
            parameter.parse(text)
        except ValueError as error:
            problems.append(Problem(f"{where}.{name}", str(error)))
    return problems


def find_parameter(rule_id: str, name: str) -> ParameterDescription | None:
    """Return the parameter of that name, or None.

    The report has the parameters of each rule that it runs, as `<RuleName>_<parameter>`.
    """
    own = PROFILER_RULES[rule_id].get(name)
    if own is not None:
        return own.description
    if rule_id != REPORT:
        return None
    rule_name, _, parameter_name = name.partition("_")
    inner = known_rule(rule_name)
    if inner is None or not inner.is_profiler_rule or inner.rule_id == REPORT:
        return None
    parameter_name = PARAMETER_ALIASES.get(inner.rule_id, {}).get(parameter_name, parameter_name)
    found = PROFILER_RULES[inner.rule_id].get(parameter_name)
    return replace(found.description, name=name) if found else None
