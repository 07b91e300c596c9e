"""`trackside rules`: the rules, their decisions and their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.rules.run import command as run_rules
from trackside.cli.rules.test import command as test_rules
from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.rows import print_json, print_json_lines
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.rule_catalogue import LifeCycle, RuleDescription, built_in_catalogue
from trackside.contracts.rule_request import CustomRule

if TYPE_CHECKING:
    from rich.text import Text


_SUMMARY_INDENT = 7  # below the rule's name, behind its code


class _RulesCommands(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            rules = built_in_catalogue().rules
            hint = f"Try: trackside rules show {args[0]}" if args[0] in rules else did_you_mean(args[0], self.commands)
            raise click.UsageError(f"There is no command {args[0]!r} here. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group("rules", cls=_RulesCommands)
@shared_options
def command() -> None:
    """List the rules, show one, or judge recorded runs by them.

    \b
    Example:
      trackside rules list
      trackside rules show vanishing-gradient
      trackside rules run latest --only vanishing-gradient
      trackside rules test run-1 run-2 --only overfit:ratio_threshold=0.2
    """


command.add_command(run_rules)
command.add_command(test_rules)


@command.command("list")
@format_option("table", "json", "jsonl")
@shared_options
def list_rules(output: str) -> None:
    """List every rule with its severity and life cycle.

    A rule in preview is off by default: choose it with --rule.

    \b
    Example:
      trackside rules list --format json
    """
    rules = list(built_in_catalogue().rules.values())
    if output == "json":
        print_json({"rules": [_plain(rule) for rule in rules]})
    elif output == "jsonl":
        print_json_lines(map(_plain, rules))
    else:
        _print_list(rules)


@command.command("show")
@click.argument("rule")
@format_option("table", "json")
@shared_options
def show_rule(rule: str, output: str) -> None:
    """Show one RULE with its parameters.

    RULE is the id of a rule, its code, or FILE.py:CLASS for one of your own: then the file is run, and errors in it
    are named.

    \b
    Example:
      trackside rules show exploding-tensor
      trackside rules show rules/mine.py:LargeGradients
    """
    described = _describe(rule)
    if output == "json":
        print_json(_plain(described))
    else:
        _print_rule(described, requested_as=rule if ".py:" in rule else described.rule_id)


def _describe(rule: str) -> RuleDescription:
    file, py, class_name = rule.partition(".py:")
    if py:
        from trackside.rules.rule_file import load_rule_class

        return load_rule_class(CustomRule(f"{file}.py", class_name, {})).describe()
    catalogue = built_in_catalogue()
    rules = catalogue.rules
    if (rule_id := catalogue.id_of(rule)) not in rules:
        near = did_you_mean(rule, rules)  # of no near name it is a list of all
        fix = near if near.startswith("Did") else "trackside rules list   (shows them all)"
        raise ConfigurationError([Problem("RULE", f"Unknown rule {rule!r}.", fix)], subject="The command line")
    return rules[rule_id]


def _plain(rule: RuleDescription) -> dict[str, Any]:
    fields = asdict(rule)
    fields["rule"] = fields.pop("rule_id")
    return {**fields, "severity": rule.severity.value, "life_cycle": rule.life_cycle.value}


def _print_list(rules: list[RuleDescription]) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import data_console
    from trackside.cli.terminal.layout import wrapped

    console = data_console(color=wants_color())
    for rule in rules:
        console.print(
            Text.assemble(f"{rule.code}  ", (rule.rule_id, "bold"), f"  {rule.severity.value}{_beside(rule)}")
        )
        for line in wrapped(console, Text(rule.summary), console.width - _SUMMARY_INDENT):
            console.print(Text(" " * _SUMMARY_INDENT) + line)


def _beside(rule: RuleDescription) -> str:
    """Return the life cycle of a rule that is not stable."""
    return "" if rule.life_cycle is LifeCycle.STABLE else f", {rule.life_cycle.value}"


def _print_rule(rule: RuleDescription, *, requested_as: str) -> None:
    from rich.text import Text

    from trackside.cli.terminal.console import data_console
    from trackside.cli.terminal.layout import columns, paragraphs, wrapped
    from trackside.cli.terminal.rule_page import page_of

    console = data_console(color=wants_color())
    facts = [
        ("finds", rule.summary),
        ("code", rule.code),
        ("severity", rule.severity.value),
        ("needs", _needs(rule)),
        ("since", rule.since),
        ("life cycle", rule.life_cycle.value),
    ]
    console.print(Text(rule.rule_id, style="bold"))
    for line in columns(console, [[Text(label, style="bold"), Text(text)] for label, text in facts if text]):
        console.print(line)
    for heading, text in _manual(rule, requested_as):
        console.print()
        console.print(Text(heading, style="bold"))
        for paragraph in paragraphs(text):
            for line in wrapped(console, Text(paragraph), console.width):
                console.print(line)
    if rule.parameters:
        console.print()
        for line in columns(console, _parameter_rows(rule), header=("parameter", "default", "allowed", "meaning")):
            console.print(line)
    console.print()
    for label, command in _uses(rule, requested_as=requested_as):
        console.print(f"{label}: trackside run {command} -- COMMAND", soft_wrap=True)
    if page := page_of(rule.rule_id):
        console.print(f"Read on: {page}", soft_wrap=True)


def _manual(rule: RuleDescription, requested_as: str) -> tuple[tuple[str, str], ...]:
    """Return the sections of a built-in rule's page that help its reader; none for a rule of the user's."""
    if ".py:" in requested_as:
        return ()
    from trackside.rules.catalogue import built_in_rules
    from trackside.rules.manual import read_manual

    sections = dict(read_manual(built_in_rules()[rule.rule_id]).sections)
    return tuple([(heading, sections[heading]) for heading in ("Why it matters", "How it decides", "What to do")])


def _uses(rule: RuleDescription, *, requested_as: str) -> Iterator[tuple[str, str]]:
    """Yield commands that use the rule and keep all others."""
    is_own = ".py:" in requested_as
    first = next(iter(rule.parameters), None)
    if is_own or not rule.is_on_by_default:
        setting = f":{first.name}={_shown(first.default)}" if first else ""
        yield "Add it", f"--rule {requested_as}{setting}"
    elif first:
        yield "Tune it", f"--set {rule.rule_id}.{first.name}={_shown(first.default)}"
    if not is_own and rule.is_on_by_default:
        yield "Leave it out", f"--skip {rule.rule_id}"
    yield "Judge by it only", f"--only {requested_as}"


def _needs(rule: RuleDescription) -> str:
    intervals: dict[int, list[str]] = {}
    for collection in rule.capture_request.collections:
        intervals.setdefault(collection.schedule.save_interval, []).append(collection.name)
    if not intervals:
        return "the always-on statistics, nothing else"
    saved = [f"{', '.join(names)}, saved every {interval} steps" for interval, names in intervals.items()]
    return f"{'; '.join(saved)} unless you set another"


def _parameter_rows(rule: RuleDescription) -> list[list[Text]]:
    from rich.text import Text

    return [
        [Text(p.name), Text(_shown(p.default)), Text(_allowed(p.kind, p.minimum, p.maximum)), Text(p.help)]
        for p in rule.parameters
    ]


def _allowed(kind: str, minimum: float | None, maximum: float | None) -> str:
    if minimum is None and maximum is None:
        return kind
    if maximum is None:
        return f"{kind} >= {minimum:g}"
    return f"{kind} <= {maximum:g}" if minimum is None else f"{kind} {minimum:g} to {maximum:g}"


def _shown(value: float | bool | str | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
