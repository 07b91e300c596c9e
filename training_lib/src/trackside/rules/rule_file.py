"""Rules of the user's own, from a Python file: a subclass of `Rule`, or a class that an adapter turns into one.

A package offers an adapter for rules of another library by an entry point of the group `trackside.rule_adapters`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import linecache
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Protocol

from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS, KNOWN_COLLECTIONS, CollectionRequest
from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    KeyNotFoundError,
    LocationNotFoundError,
    Problem,
    did_you_mean,
)
from trackside.contracts.rule_request import CustomRule, RuleConfiguration
from trackside.extras import install_command
from trackside.rules.rule import Rule, is_rule
from trackside.storage.open_store import open_store

ADAPTERS = "trackside.rule_adapters"


class RuleAdapter(Protocol):
    """An adapter that makes rules from classes written for another library."""

    def adapts(self, candidate: type) -> bool:
        """Return True for a class that `adapt` can turn into a rule; False for the library's abstract base."""

    def adapt(self, candidate: type, *, watches: tuple[str, ...]) -> type[Rule]:
        """Return the rule. `watches` are the collections that are saved for it."""


def load_rule(configuration: RuleConfiguration) -> Rule:
    """Run the file of a configuration with `custom`. Return its rule, ready to judge.

    Errors: `ConfigurationError` that names the file, the class and a cure; `StorageUnavailableError`.
    """
    custom = configuration.custom
    if custom is None:
        raise ValueError(f"{configuration.name} is a rule of the catalogue.")
    watches = tuple(collection.name for collection in configuration.collections) or KNOWN_COLLECTIONS
    rule = load_rule_class(custom, watches=watches)
    try:
        return rule.from_parameters(custom.parameters)
    except ConfigurationError as error:
        problems = [Problem(f"{custom.source}: {p.where}", p.what, p.fix) for p in error.problems]
        raise ConfigurationError(problems, subject="The rule request") from error


def settled(configuration: RuleConfiguration) -> RuleConfiguration:
    """Return the configuration as stored in a run: with an absolute path and the collections that the rule needs.

    Runs the file. Errors: those of `load_rule`.
    """
    return settled_as(configuration, load_rule(configuration))


def settled_as(configuration: RuleConfiguration, rule: Rule) -> RuleConfiguration:
    """Return `settled` for a rule that is already loaded."""
    if configuration.source and "://" not in configuration.source:
        configuration = replace(configuration, source=str(Path(configuration.source).expanduser().absolute()))
    if configuration.collections or rule.judges_every_step:
        return configuration
    if rule.needs == ():  # the always-on statistics are enough to it
        return replace(configuration, collections=(CollectionRequest("losses"),))
    needed = rule.describe().capture_request.collections
    savable = [c for c in needed if c.name in BUILT_IN_COLLECTIONS or c.include_regex or c.tensor_names]
    return replace(configuration, collections=tuple(savable))


def load_rule_class(custom: CustomRule, *, watches: tuple[str, ...] = KNOWN_COLLECTIONS) -> type[Rule]:
    """Run the file and return its class as a rule. Errors: those of `load_rule`."""
    adapters = tuple(_adapters())
    module = _run(custom.source, _read(custom.source), has_adapters=bool(adapters))
    candidate = vars(module).get(custom.class_name)
    if is_rule(candidate):
        if lacking := _lacking(candidate):
            raise ConfigurationError([Problem(custom.source, *each) for each in lacking], subject="The rule request")
        return candidate
    if isinstance(candidate, type):
        for adapter in adapters:
            if adapter.adapts(candidate):
                return adapter.adapt(candidate, watches=watches)
    raise _not_a_rule(custom, module, candidate, adapters)


def _lacking(rule: type[Rule]) -> list[tuple[str, str]]:
    """Return (problem, fix) for everything that keeps a rule from judging."""
    name, found = rule.__name__, []
    for fact, example in (("rule_id", '"my-rule"'), ("watches", '("losses",)')):
        if not hasattr(rule, fact):
            found.append((f"{name!r} does not set its {fact}.", f"Write it into the class: {fact} = {example}."))
    fields = {field.name: field for field in dataclasses.fields(rule)}
    annotated = {n for n, kind in vars(rule).get("__annotations__", {}).items() if "ClassVar" not in str(kind)}
    if ignored := sorted(annotated - set(fields)):
        what = f"{name!r} is no dataclass, so these are no parameters of it: {', '.join(ignored)}."
        found.append((what, "Write @dataclass(frozen=True) above the class."))
    plain = [field for field in fields if "help" not in fields[field].metadata]
    if plain:
        what = f"Parameters of {name!r} are not declared by `parameter`: {', '.join(plain)}."
        fix = f'Write {plain[0]}: float = parameter(1.0, "its meaning"), or ClassVar for a constant.'
        found.append((what, fix))
    return found


def _adapters() -> Iterator[RuleAdapter]:
    from importlib.metadata import entry_points  # brings `email`, `socket` and more

    for point in entry_points(group=ADAPTERS):
        try:
            adapter: RuleAdapter = point.load()
        except Exception as error:  # a stranger's package may raise anything; here it is named, and what to do
            what = f"The adapter {point.value!r} cannot be loaded: {type(error).__name__}: {error}"
            fix = "`trackside doctor` finds the fault of the installation."
            raise ConfigurationError([Problem(f"{ADAPTERS}: {point.name}", what, fix)], subject="Rule files") from error
        yield adapter


def _read(source: str) -> bytes:
    fix = "Give the path or the s3:// URI of a Python file that can be read where the rules are judged."
    try:
        if "://" not in source:
            return Path(source).expanduser().read_bytes()
        folder, _, name = source.rpartition("/")
        return open_store(folder).get(name)
    except (KeyNotFoundError, LocationNotFoundError, AccessDeniedError) as error:
        raise _refused(source, f"cannot be read: {error}", fix) from error
    except OSError as error:
        if "://" in source:
            raise
        raise _refused(source, f"cannot be read: {error.strerror}.", fix) from error


def _run(source: str, content: bytes, *, has_adapters: bool) -> ModuleType:
    """Run the file as a module with a name of its own, not `__main__`, so that it only defines."""
    name = f"trackside_rule_file_{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    module = ModuleType(name)
    module.__file__ = source
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look their own module up there
    try:
        exec(compile(content, source, "exec"), vars(module))  # noqa: S102 - the user's own code, that the user named
    except (Exception, SystemExit) as error:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise _why_it_does_not_run(source, error, has_adapters=has_adapters) from error
    if "://" in source:  # tracebacks and inspect.getsource find no such file
        text = content.decode("utf-8", errors="replace")
        linecache.cache[source] = (len(text), None, text.splitlines(keepends=True), source)
    return module


def _why_it_does_not_run(source: str, error: BaseException, *, has_adapters: bool) -> ConfigurationError:
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        line_number = error.lineno if error.filename == source else _line_within(source, error.__traceback__)
        return _refused(source, f"line {line_number or 1}: is not Python: {error.msg}.", "Mend that line.")
    line = _line_within(source, error.__traceback__)
    where = f"line {line}: " if line else ""
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing == "smdebug" and not has_adapters:
        return _refused(
            source, f"{where}it is a rule of smdebug, whose names are not installed.", install_command("smdebug")
        )
    if missing:
        fix = f"Install {missing} where the rules are judged, or do without it; a rule file stands alone."
        return _refused(source, f"{where}{message}.", fix)
    return _refused(source, f"{where}raised {message}", "Mend the file, so that `python FILE` runs without an error.")


def _line_within(source: str, traceback: TracebackType | None) -> int:
    """Return the last line of the file that was running; 0 if none was."""
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == source:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _not_a_rule(
    custom: CustomRule, module: ModuleType, candidate: object, adapters: Iterable[RuleAdapter]
) -> ConfigurationError:
    name = custom.class_name
    found = sorted(member for member in vars(module) if _is_any_rule(vars(module)[member], module, adapters))
    hint = did_you_mean(name, found[:10]) if found else "The file holds no rule class."
    if candidate is None:
        return _refused(custom.source, f"holds no class {name!r}.", hint)
    if not isinstance(candidate, type):
        return _refused(custom.source, f"{name!r} is no class.", hint)
    if missing := sorted(getattr(candidate, "__abstractmethods__", ())):
        return _refused(custom.source, f"{name!r} does not define {', '.join(missing)}.", f"Define it. {hint}")
    if _is_of_smdebug(candidate) and not adapters:
        what = f"{name!r} is a rule of the original smdebug, which has no evaluator."
        return _refused(custom.source, what, f"Judge it by Trackside: {install_command('smdebug')}")
    bases = "trackside.rules.rule.Rule or smdebug.rules.Rule"
    return _refused(custom.source, f"{name!r} is not a rule: a class that inherits {bases}.", hint)


def _is_any_rule(member: object, module: ModuleType, adapters: Iterable[RuleAdapter]) -> bool:
    if not isinstance(member, type) or member.__module__ != module.__name__:
        return False
    return is_rule(member) or any(adapter.adapts(member) for adapter in adapters)


def _is_of_smdebug(candidate: type) -> bool:
    return any(base.__module__.partition(".")[0] == "smdebug" for base in candidate.__mro__)


def _refused(source: str, what: str, fix: str) -> ConfigurationError:
    return ConfigurationError([Problem(where=source, what=what, fix=fix)], subject="The rule request")
