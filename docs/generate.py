"""Writes what can be written from the code: the catalogue, schemas, a page per rule, reference pages, indexes.

python docs/generate.py            write the files
python docs/generate.py --check    exit 1 and name the files that are not current; write nothing
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import click

import trackside
from trackside.contracts import action as registry
from trackside.contracts.action import Action
from trackside.contracts.action_unit import ActionUnit
from trackside.contracts.capture_request import Schedule
from trackside.contracts.cause import Sign, Suspicion
from trackside.contracts.event import Evidence, RuleEvaluation
from trackside.contracts.observations import DECLARED
from trackside.contracts.repair import Edit, Place, Repair
from trackside.contracts.rule_catalogue import CATALOGUE_FILE, ParameterDescription, RuleDescription
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, RuleConfiguration, RuleRequest
from trackside.contracts.schemas import EVENT_FILE, VERDICT_FILE, as_file, event_schema, verdict_schema
from trackside.contracts.stored_fields import field_table
from trackside.contracts.verdict import Finding, Verdict
from trackside.rules.catalogue import built_in_rules, catalogue_json, documented_rules
from trackside.rules.manual import ManualError, read_manual
from trackside.rules.rule import Rule

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "docs" / "rules"
REGISTRY = Path(registry.__file__).resolve()
LAMBDAS = ROOT / "lambdas"
ACTIONS = ROOT / "docs" / "actions.md"
DEPLOY = ROOT / "docs" / "deploy.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
COMMAND_LINE = ROOT / "docs" / "reference" / "cli.md"
PYTHON = ROOT / "docs" / "reference" / "python.md"
SCHEMAS = ROOT / "docs" / "schemas"
DECISIONS = ROOT / "docs" / "decisions"
VERDICTS = ROOT / "docs" / "formats" / "verdicts.md"
FINE_TUNING = ROOT / "docs" / "fine-tuning.md"
FACTS = ROOT / "docs" / "formats" / "model-facts.md"
DESCRIBED = {
    kind.__name__: kind for kind in (Verdict, Finding, Suspicion, Sign, Repair, Place, Edit, RuleEvaluation, Evidence)
}
MORE_FRAMEWORKS = ROOT / "docs" / "more-frameworks.md"
FRAMEWORKS = ROOT / "docs" / "frameworks.md"
SITE = ROOT / "zensical.toml"
LLMS = ROOT / "docs" / "llms.txt"
SHELVES = ("use", "operate", "extend", "evidence")
COMMAND = "python docs/generate.py"
NOTE = f"<!-- Written by `{COMMAND}` from the code: change the code, not this page. -->\n"
HELP_WIDTH = 78  # what click uses on a terminal of 80 columns


def main(arguments: list[str]) -> int:
    """0 if all is current (or was written), 1 if something is stale."""
    if arguments not in ([], ["--check"]):
        click.echo(f"usage: {COMMAND} [--check]", err=True)
        return 2
    if not arguments and (source := with_every_action(REGISTRY.read_text(encoding="utf-8"))) != REGISTRY.read_text(
        encoding="utf-8"
    ):
        REGISTRY.write_text(source, encoding="utf-8", newline="\n")
        return subprocess.run([sys.executable, __file__], check=False).returncode  # the pages need the new registry
    try:
        pages = generate()
    except ManualError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    stale = stale_files(pages)
    if not arguments:
        write(pages, stale)
        if any(path.parent == RULES for path in stale):  # the navigation has the pages that are there
            pages = generate()
            write(pages, stale_files(pages))
        return 0
    for path in stale:
        click.echo(f"{path.relative_to(ROOT)} is not current.", err=True)
    if stale:
        click.echo(f"Mend with: {COMMAND}", err=True)
    return 1 if stale else 0


def generate() -> Mapping[Path, str]:
    """Every generated file and its text."""
    from docs.output_schemas import OUTPUTS, output_schema  # the root is on the path by now

    rules = built_in_rules()
    return {
        **{SCHEMAS / f"{name}.json": as_file(output_schema(name)) for name in OUTPUTS},
        REGISTRY: with_every_action(REGISTRY.read_text(encoding="utf-8")),
        **{LAMBDAS / action.unit.reaction / "__init__.py": "" for action in Action},
        ACTIONS: with_actions(ACTIONS.read_text(encoding="utf-8")),
        DEPLOY: with_settings(DEPLOY.read_text(encoding="utf-8")),
        ARCHITECTURE: with_rooms(ARCHITECTURE.read_text(encoding="utf-8")),
        CATALOGUE_FILE.resolve(): catalogue_json(),
        VERDICT_FILE.resolve(): as_file(verdict_schema()),
        EVENT_FILE.resolve(): as_file(event_schema()),
        RULES / "index.md": rule_index(rules),
        **{RULES / f"{rule_id}.md": rule_page(rule) for rule_id, rule in rules.items()},
        COMMAND_LINE: command_line_page(),
        PYTHON: python_page(),
        DECISIONS / "index.md": decision_index(),
        VERDICTS: with_field_tables(VERDICTS.read_text(encoding="utf-8")),
        FINE_TUNING: with_language_numbers(FINE_TUNING.read_text(encoding="utf-8")),
        FACTS: with_observations(FACTS.read_text(encoding="utf-8")),
        FRAMEWORKS: with_frameworks(FRAMEWORKS.read_text(encoding="utf-8"), rules),
        MORE_FRAMEWORKS: with_more_frameworks(MORE_FRAMEWORKS.read_text(encoding="utf-8")),
        SITE: with_navigation(SITE.read_text(encoding="utf-8"), ROOT / "docs"),
        LLMS: llms_text(SITE.read_text(encoding="utf-8"), ROOT / "docs"),
    }


def stale_files(pages: Mapping[Path, str]) -> list[Path]:
    """Files whose text is another, that are missing, or that nothing generates any more; sorted."""
    differ = {path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text}
    left_over = set(RULES.glob("*.md")) - set(pages)
    return sorted(differ | left_over)


def write(pages: Mapping[Path, str], stale: list[Path]) -> None:
    """Writes the stale files, removes those that nothing generates."""
    for path in stale:
        if path not in pages:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path], encoding="utf-8", newline="\n")


def with_field_tables(page: str) -> str:
    """Return the page with each table between `<!-- fields of NAME -->` and `<!-- end -->` as NAME declares it."""
    return re.sub(
        r"(?<=<!-- fields of )(\w+)( -->\n).*?(?=<!-- end -->)",
        lambda found: f"{found[1]}{found[2]}\n{field_table(DESCRIBED[found[1]])}\n\n",
        page,
        flags=re.DOTALL,
    )


def with_every_action(source: str) -> str:
    """Return the registry of actions with a member for each file of `contracts/actions`, new ones last."""
    files = {path.stem for path in (REGISTRY.parent / "actions").glob("*.py")} - {"__init__"}
    registered = re.findall(r"(?m)^    [A-Z_]+ = (\w+)\.UNIT$", source)
    ordered = [name for name in registered if name in files] + sorted(files - set(registered))
    units: dict[str, ActionUnit] = {name: import_module(f"trackside.contracts.actions.{name}").UNIT for name in ordered}
    imports = "".join(f"    {name},\n" for name in sorted(files))
    members = "".join(f"    {_member(unit.word)} = {name}.UNIT\n" for name, unit in units.items())
    source = re.sub(
        r"(?m)^from trackside\.contracts\.actions import [^)]*\)\n",
        f"from trackside.contracts.actions import (\n{imports})\n",
        source,
    )
    return re.sub(r"(?m)(^    [A-Z_]+ = \w+\.UNIT\n)+", members, source)


def _member(word: str) -> str:
    """Return the name of the member of `Action` for a word: STOP_TRAINING for StopTraining."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper()


def with_actions(page: str) -> str:
    """Return the page of actions with the tables of actions and terms as their files declare them."""
    actions = [
        f"| `{action.value}` | `{action.unit.reaction}`: {_cell(action.unit.in_aws)} | {_cell(action.unit.locally)} |"
        for action in Action
    ]
    terms = [
        f"| `{action.value}` | `{name}` | {_cell(term.meaning)} ({term.least} to {term.most}) |"
        for action in Action
        for name, term in action.unit.terms.items()
    ]
    page = _with_table(page, "actions", ["| action | in AWS | `trackside run` |", "|---|---|---|", *actions])
    return _with_table(page, "terms of actions", ["| action | term | meaning |", "|---|---|---|", *terms])


def with_settings(page: str) -> str:
    """Return the page with the table of a deployment's settings as `stacks/settings` declares them."""
    from stacks.deployment_settings import DeploymentSettings
    from stacks.settings.setting import declared_settings, in_words

    default = DeploymentSettings()
    rows = [
        f"| `{one.key}` | {in_words(one.value_in(default))} | {_cell(one.meaning)} |"
        for one in declared_settings(DeploymentSettings)
    ]
    return _with_table(page, "settings", ["| `trackside:…` | default | meaning |", "|---|---|---|", *rows])


def with_rooms(page: str) -> str:
    """Return the page with the tables of the library's rooms and of those of PyTorch's adapter."""
    from docs.rooms import HOUSE, LIBRARY, PYTORCH, rooms_table  # the root is on the path by now

    page = _with_table(page, "rooms", rooms_table(HOUSE))
    return _with_table(page, "rooms of pytorch", rooms_table(PYTORCH, LIBRARY / "frameworks" / "pytorch"))


def with_observations(page: str) -> str:
    """Return the page with the table of what detectors see."""
    rows = [
        f"| `{one.about}` | `{one.name}` | {json.dumps(one.default)} | {_cell(one.meaning)} | {one.since} |"
        for one in DECLARED
    ]
    return _with_table(
        page, "observations", ["| section | field | default | meaning | since |", "|---|---|---|---|---|", *rows]
    )


def with_language_numbers(page: str) -> str:
    """Return the page with the names under which tools log the numbers of a language model's training."""
    from trackside.contracts.run.language_numbers import LANGUAGE_NUMBERS, TOOLS

    rows = [
        f"| `{one.name}` | {_cell(one.meaning)} | "
        + " | ".join(", ".join(f"`{name}`" for name in one.spellings.get(tool, ())) for tool in TOOLS)
        + " |"
        for one in LANGUAGE_NUMBERS
    ]
    heads = ["ours", "meaning", *TOOLS]
    return _with_table(page, "names of numbers", [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows])


def _with_table(page: str, name: str, lines: list[str]) -> str:
    """Return the page with these lines between `<!-- NAME -->` and `<!-- end -->`."""
    table = "\n".join(lines)
    before, begin, rest = page.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def with_more_frameworks(page: str) -> str:
    """Return the page with the table of the other frameworks."""
    from docs.framework_tables import MORE, MORE_TABLE, captured_table  # the root is on the path by now

    return _with_table(page, "captured of more", captured_table(MORE_TABLE, MORE))


def with_frameworks(page: str, rules: Mapping[str, type[Rule]]) -> str:
    """Return the page with the tables of `docs/framework_tables.py`."""
    from docs.framework_tables import captured_table, rules_table  # the root is on the path by now

    return _with_table(_with_table(page, "captured", captured_table()), "rules by framework", rules_table(rules))


def rule_index(rules: Mapping[str, type[Rule]]) -> str:
    """The list of all rules."""
    rows = [
        f"| {rule.code} | [{rule_id}]({rule_id}.md) | {_cell(rule.describe().summary)} | {rule.severity.value} "
        f"| {rule.life_cycle.value} | {_needed(rule.describe())} |"
        for rule_id, rule in rules.items()
        if rule.describe().is_on_by_default
    ]
    others = [
        f"| {rule.code} | [{rule_id}]({rule_id}.md) | {_cell(rule.describe().summary)} | {rule.severity.value} "
        f"| {rule.life_cycle.value} |"
        for rule_id, rule in rules.items()
        if not rule.describe().is_on_by_default
    ]
    return "\n".join(
        [
            NOTE,
            "# Rules",
            "",
            "A rule asks one question about a run, again and again while the run goes on. Without a request of yours,",
            "these judge with the defaults on their pages. How well: [quality of the rules](../rule-quality.md).",
            "",
            "| code | rule | finds | severity | life cycle | needs |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "What a rule says is a verdict: [its format and schema](../formats/verdicts.md). A rule of your own is a",
            "class in a file: [how to write one](../custom-rules.md).",
            "",
            "These judge only where they are chosen, because they must be told what to look at, or are in preview:",
            "",
            "| code | rule | finds | severity | life cycle |",
            "|---|---|---|---|---|",
            *others,
            "",
            "Rules that Amazon has too can be had in the sense of its documentation: preset `aws-docs`, or `aws-sdk`",
            "with the defaults that its Python SDK sends. Each page says what they do then.",
            "",
        ]
    )


def rule_page(rule: type[Rule]) -> str:
    """The page of one rule."""
    facts = rule.describe()
    manual = read_manual(rule)
    parts = [NOTE, f"# {facts.rule_id}", "", manual.summary, "", *_facts(rule, facts)]
    for heading, text in manual.sections:
        if heading == "Example":
            parts += _parameters(facts)
        parts += [f"## {heading}", "", text, ""]
    parts += _presets(rule, facts)
    return "\n".join([*parts, "[All rules](index.md)", ""])


def _facts(rule: type[Rule], facts: RuleDescription) -> Iterator[str]:
    patience = (
        "the first judged step at which it holds" if rule.patience == 1 else f"{rule.patience} judged steps in a row"
    )
    yield "| | |"
    yield "|---|---|"
    yield f"| code | {facts.code} |"
    yield f"| severity | {facts.severity.value} |"
    yield f"| needs | {_needed(facts)} |"
    yield f"| says so after | {patience} |"
    yield f"| since | {facts.since} |"
    yield f"| life cycle | {facts.life_cycle.value} |"
    yield ""


def _needed(facts: RuleDescription) -> str:
    """What must be there for the rule to judge anything, in words."""
    if facts.needs == ():
        return "what you choose" if facts.is_asked_for else "always-on statistics"
    collections = facts.capture_request.collections
    return ", ".join(f"{one.name} ({_schedule(one.schedule)})" for one in collections)


def _schedule(schedule: Schedule) -> str:
    """How often something is saved, in words."""
    until = f" up to step {schedule.end_step - 1}" if schedule.end_step else ""
    return f"every {schedule.save_interval} steps{until}"


def _presets(rule: type[Rule], facts: RuleDescription) -> Iterator[str]:
    """The rule in the sense of Amazon: what it says there, and its defaults in both presets."""
    other = documented_rules().get((facts.rule_id, AWS_DOCS))
    if other is None:
        return
    yield "## As Amazon documents it"
    yield ""
    if other is not rule:
        yield inspect.cleandoc(other.__doc__ or "")
        yield ""
    docs, sdk = other.describe(AWS_DOCS), other.describe(AWS_SDK)
    yield "| parameter | `aws-docs` | `aws-sdk` | meaning |"
    yield "|---|---|---|---|"
    for one, two in zip(docs.parameters, sdk.parameters, strict=True):
        defaults = [_value(each.default) for each in (one, two)]
        yield f"| `{one.name}` | {' | '.join(defaults)} | {_cell(one.help)} |"
    yield ""


def _parameters(facts: RuleDescription) -> Iterator[str]:
    yield "## Parameters"
    yield ""
    yield "| name | kind | default | allowed | meaning |"
    yield "|---|---|---|---|---|"
    for parameter in facts.parameters:
        yield (
            f"| `{parameter.name}` | {parameter.kind} | {_value(parameter.default)} | {_allowed(parameter)} "
            f"| {_cell(parameter.help)} |"
        )
    texts = {parameter.name: as_text(parameter.default) for parameter in facts.parameters}
    request = json.loads(RuleRequest((RuleConfiguration(facts.rule_id, parameters=texts),)).to_json())
    yield ""
    yield "In a rule request (`rule-request.json` in the run), with the defaults:"
    yield ""
    yield "```json"
    yield json.dumps(request, indent=2)
    yield "```"
    yield ""


def as_text(value: object) -> str:
    """A parameter's value as it travels in a request."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(value: object) -> str:
    """A default for a cell of a table."""
    return f"`{_cell(text)}`" if (text := as_text(value)) else "none"


def _cell(text: str) -> str:
    """`text` for a cell of a table, where a bar would begin the next one."""
    return text.replace("|", r"\|")


def _allowed(parameter: ParameterDescription) -> str:
    if parameter.kind == "boolean":
        return "true, false"
    low, high = parameter.minimum, parameter.maximum
    if low is None and high is None:
        return "any"
    if high is None:
        return f"{low:g} or more"
    return f"up to {high:g}" if low is None else f"{low:g} to {high:g}"


# Public modules beside `trackside` itself, as docs/public-api.md lists them, and the names that their users need.
API = {
    "Rules": (
        "trackside.rules.rule.Rule",
        "trackside.rules.rule.FoldingRule",
        "trackside.rules.rule.parameter",
        "trackside.trial.window.Window",
        "trackside.trial.window.Column",
        "trackside.contracts.verdict.Finding",
        "trackside.contracts.verdict.Severity",
        "trackside.contracts.rule_catalogue.LifeCycle",
    ),
    "Tests of rules and stores": (
        "trackside.testing.rule_case",
        "trackside.testing.fake_trial",
        "trackside.testing.store_contract",
    ),
    "Requests": ("trackside.contracts.capture_request.CaptureRequest", "trackside.contracts.rule_request.RuleRequest"),
    "Stores": ("trackside.storage.store.Store", "trackside.storage.open_store.open_store"),
    "The local account": ("trackside_localaccount.server.LocalAccount", "trackside_localaccount.faults.Faults"),
}


def python_page() -> str:
    """Return the page of the public Python names; the site puts their docstrings in."""
    names = [name for name in trackside.__all__ if name != "__version__"]
    errors = [name for name in names if name.endswith("Error")]
    sections = {
        "trackside": [f"trackside.{name}" for name in names if name not in errors],
        "Errors": [f"trackside.{name}" for name in errors],
        **API,
    }
    parts = [
        NOTE,
        "# The Python interface",
        "",
        "The public names with their docstrings, as the site shows them: [which names are public](../public-api.md).",
        "",
    ]
    for heading, members in sections.items():
        parts += [f"## {heading}", "", *(line for name in members for line in (f"::: {name}", *_options(name), ""))]
    return "\n".join(parts)


def _options(name: str) -> list[str]:
    """Return the lines for a class whose public methods stand in its base class."""
    return ["    options:", "      inherited_members: true"] if name == "trackside.Trial" else []


def decision_index() -> str:
    """Return the list of all decisions, by number."""
    pages = sorted(page for page in DECISIONS.glob("*.md") if page.name != "index.md")
    titles = {page.name: page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for page in pages}
    head = [NOTE, "# Decisions", "", "Choices that others will question: context, choice, and what each costs.", ""]
    return "\n".join([*head, *(f"- [{title}]({name})" for name, title in titles.items()), ""])


def with_navigation(settings: str, docs: Path) -> str:
    """Return the settings of the site with the navigation that the pages of the shelves make."""
    before, rest = settings.split("nav = [\n", 1)
    after = rest.partition("\n]\n")[2]
    placed: set[str] = set()
    shelves = "".join(_shelf(docs, name, placed) for name in SHELVES)
    return f'{before}nav = [\n  {{ "Trackside" = "index.md" }},\n{shelves}]\n{after}'


def llms_text(settings: str, docs: Path) -> str:
    """Return the list of pages for language models (llmstxt.org): the page for agents first, then each shelf."""
    found = dict(re.findall(r'(?m)^(site_name|site_description|site_url) = "(.*)"$', settings))
    name, description, address = (found[key] for key in ("site_name", "site_description", "site_url"))
    parts = [f"# {name}", "", f"> {description}", ""]
    parts += ["## Coding agents", "", f"- [Coding agents]({address}agents.html): begin here", ""]
    for shelf in SHELVES:
        listed = re.findall(
            r"(?m)^- \[([^\]]+)\]\(([^)#:]+)\.md\)(.*)$", (docs / f"{shelf}.md").read_text(encoding="utf-8")
        )
        pages = [f"- [{title}]({address}{page}.html){rest}" for title, page, rest in listed if page != "agents"]
        parts += [f"## {shelf.capitalize()}", "", *pages, ""]
    return "\n".join(parts)


def _shelf(docs: Path, name: str, placed: set[str]) -> str:
    """Return the entries of one shelf: a section for each heading of its page that lists pages not `placed` before."""
    lines = [f'  {{ "{name.capitalize()}" = [', f'    "{name}.md",']
    for section in re.split(r"(?m)^## ", (docs / f"{name}.md").read_text(encoding="utf-8"))[1:]:
        heading, _, text = section.partition("\n")
        listed = re.findall(r"(?m)^- \[([^\]]+)\]\(([^)#]+\.md)\)", text)
        new = [(title, page) for title, page in listed if page not in placed]
        placed.update(page for _, page in new)
        entries = [_entry(docs, title, page) for title, page in new]
        lines += [f'    {{ "{heading}" = [', *(f"      {entry}," for entry in entries), "    ] },"] if entries else []
    return "\n".join([*lines, "  ] },", ""])


def _entry(docs: Path, title: str, page: str) -> str:
    """Return the entry of a page; that of an index has all pages of its folder."""
    if not page.endswith("/index.md"):
        return f'{{ "{title}" = "{page}" }}'
    others = sorted(each.relative_to(docs).as_posix() for each in (docs / page).parent.glob("*.md"))
    pages = "".join(f'        "{each}",\n' for each in others if each != page)
    return f'{{ "{title}" = [\n        {{ "{title}" = "{page}" }},\n{pages}      ] }}'


def command_line_page() -> str:
    """What `--help` prints, for every command."""
    from trackside.cli import main as cli

    parts = [NOTE, "# The command line", ""]
    for name, help_text in command_help(cli, "trackside"):
        parts += [f"## {name}", "", "```text", help_text, "```", ""]
    return "\n".join(parts)


def command_help(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """(full name, help text as on a terminal of 80 columns) of a command and of all below it, depth first."""
    settings = {**command.context_settings, "terminal_width": HELP_WIDTH, "color": False}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from command_help(found, child, context)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for `stacks`, which no wheel holds
    sys.exit(main(sys.argv[1:]))
