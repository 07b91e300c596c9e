"""What the pages say, asked of a server that runs."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.training_lib.local.verdicts import finding, issue, no_issue
from tests.training_lib.views.dashboard.runs import HOSTILE, ISSUE, LOSS, NODE, WEIGHT, write_judged_run, write_run
from tests.training_lib.views.dashboard.served import Served, served
from tests.training_lib.views.report.charts.test_markup import seen
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.learning import Learning
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.contracts.verdict import Outcome
from trackside.evaluation.results.run_learning import store_learning
from trackside.runs.run_folder import RunRecord, write_record
from trackside.storage.local import LocalStore

# Comes first where a run takes a moment to read; the style sheet hides it once the page is there.
WHILE_IT_IS_READ = re.compile(r'<div class="reading".*?</div>', re.DOTALL)
PAGES = (
    "/",
    "/?worst=critical&rule=vanishing-gradient",
    "/runs/faulty",
    "/runs/right",
    "/runs/faulty/tensors",
    f"/runs/faulty/tensor?name={quote(HOSTILE)}",
    f"/runs/faulty/tensor?name={quote(HOSTILE)}&expression=l2/moving_mean(l2,5)&steps=20:300&axis=time",
    f"/runs/faulty/incident?of={ISSUE.group}",
    "/runs/faulty/tensors?of=mean&q=gradient",
    "/runs/faulty/timeline",
    "/runs/faulty/machine",
    f"/runs/right/machine?node={quote(NODE)}&steps=100:300&axis=time",
    "/runs/faulty?steps=200:260",
    "/runs/faulty?axis=time",
    f"/runs/faulty/difference?name={quote(WEIGHT)}",
    "/compare?run=faulty&run=right",
    "/compare?run=faulty&run=right&run=torn",
)


@pytest.fixture(scope="module")
def pages(server: Served) -> Mapping[str, str]:
    """Each page as it came, by its path."""
    return {path: server.page(path) for path in PAGES}


def test_no_name_becomes_markup_and_nothing_comes_from_elsewhere(pages: Mapping[str, str]) -> None:
    for path, text in pages.items():
        found = seen(text)
        assert [a for name, a in found.elements if name == "script"] == [{"src": "/script.js", "defer": None}], path
        acting = [name for name, attributes in found.elements if any(key.startswith("on") for key in attributes)]
        styled = [name for name, attributes in found.elements if "style" in attributes or name == "style"]
        assert (acting, styled) == ([], []), path
        addresses = [a for _, each in found.elements for key in ("src", "href", "action") if (a := each.get(key))]
        assert all(a.startswith(("/", "#", "data:")) and not a.startswith("//") for a in addresses), path


def test_headings_leave_out_no_level(pages: Mapping[str, str]) -> None:
    for path, text in pages.items():
        page = WHILE_IT_IS_READ.sub("", text)
        levels = [int(name[1]) for name, _ in seen(page).elements if name in {"h1", "h2", "h3", "h4"}]
        assert levels.count(1) == 1, path
        assert [level for before, level in itertools.pairwise(levels) if level > before + 1] == [], path


def test_every_link_leads_to_a_page(server: Served, pages: Mapping[str, str]) -> None:
    links: dict[str, str] = {}  # each once, with a page that has it
    for path, text in pages.items():
        found = {str(a["href"]) for name, a in seen(text).elements if name == "a"}
        local = {link for link in found if link.startswith("/")}
        assert local or path == "/"
        links |= dict.fromkeys(local, path)
    broken = {link: path for link, path in links.items() if server.ask(link).status != 200}
    assert broken == {}


def test_the_list_names_each_run_with_its_worst_issue(server: Served) -> None:
    text = seen(server.page("/")).text
    assert text.index("torn") < text.index("right") < text.index("faulty")
    assert "critical, 1 issue" in text
    assert "3 runs in" in text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        pytest.param("q=FAUL", {"faulty"}, id="any-case"),
        pytest.param("q=r&page=9", {"right", "torn"}, id="a-page-too-far"),
        pytest.param("page=-1", {"faulty", "right", "torn"}, id="no-page"),
        pytest.param("q=%3Cb%3E", set(), id="no-run"),
    ],
)
def test_runs_are_searched_by_name(server: Served, query: str, shown: set[str]) -> None:
    found = seen(server.page(f"/?{query}"))
    runs = {str(a["value"]) for name, a in found.elements if name == "input" and a.get("name") == "run"}
    assert runs == shown


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        pytest.param("worst=critical", {"faulty"}, id="gravest-issue"),
        pytest.param("worst=not-judged", {"right", "torn"}, id="not-judged"),
        pytest.param("worst=none", set(), id="judged-without-issue"),
        pytest.param("state=finished", {"faulty", "right", "torn"}, id="state"),
        pytest.param("state=running", set(), id="another-state"),
        pytest.param("rule=vanishing-gradient", {"faulty"}, id="rule"),
        pytest.param("rule=+vanishing-gradient+", {"faulty"}, id="spaces"),
        pytest.param("rule=overfit", set(), id="another-rule"),
        pytest.param("rule=%3Cscript%3E", set(), id="hostile-rule"),
        pytest.param("rule=vanishing-gradient&q=right", set(), id="all-must-fit"),
        pytest.param("state=%3Cb%3E&worst=%22", {"faulty", "right", "torn"}, id="no-such-state"),
    ],
)
def test_runs_are_chosen_by_state_gravest_issue_and_rule(server: Served, query: str, shown: set[str]) -> None:
    text = server.page(f"/?{query}")
    found = seen(text)
    assert {str(a["value"]) for name, a in found.elements if name == "input" and a.get("name") == "run"} == shown
    assert "<script>" not in text
    assert not [name for name, _ in found.elements if name == "b"]


@pytest.mark.parametrize("path", ["/", "/runs/faulty"])
def test_a_rule_leads_to_the_runs_on_which_it_fired(server: Served, path: str) -> None:
    links = {str(a.get("href")) for name, a in seen(server.page(path)).elements if name == "a"}
    assert "/?rule=vanishing-gradient" in links


def test_runs_that_failed_alike_are_named_and_lead_to_their_runs(tmp_path: Path) -> None:
    hostile = "</code><script>x</script>.weight"
    for name, subject in (("a", "fc.0.weight"), ("b", "fc.12.weight"), ("c", hostile), ("d", "fc.0.bias")):
        write_judged_run(tmp_path / f".trackside/runs/{name}", verdicts=(issue(findings=(finding(subject),)),))
    write_judged_run(tmp_path / ".trackside/runs/e", verdicts=(issue(findings=(finding(hostile),)),))
    write_judged_run(tmp_path / ".trackside/runs/f", verdicts=())
    with served(tmp_path) as server:
        page = seen(server.page("/"))
        assert "Runs that failed alike" in page.text
        links = [str(a["href"]) for name, a in page.elements if name == "a" and "alike=" in str(a.get("href"))]
        assert len(links) == 2, "one run alone is like no other"
        for link, runs in zip(links, ({"c", "e"}, {"a", "b"}), strict=True):
            found = seen(server.page(link))
            assert {str(a["value"]) for name, a in found.elements if name == "input" and a.get("name") == "run"} == runs
            assert "failed alike: vanishing-gradient first, in " in found.text
        assert "No run here is like that" in server.page("/?alike=%3Cscript%3E")


def test_the_list_ticks_no_run_that_may_be_ill(tmp_path: Path) -> None:
    folder = tmp_path / ".trackside/runs"
    lacking = [no_issue(name, outcome=Outcome.NOT_EVALUATED, message="No gradient.") for name in ("b", "c", "d")]
    write_judged_run(folder / "few", verdicts=(no_issue("a"), *lacking))
    write_judged_run(folder / "right", verdicts=(no_issue("a"), no_issue("b")))
    write_judged_run(folder / "idle", verdicts=(no_issue("a"),))
    store_learning(LocalStore(str(folder / "idle/rule-output")), Learning(level="the loss ended at 2"))
    for name in ("few", "right", "idle"):
        rules = ("a", "b", "c", "d") if name == "few" else ("a",)
        request = RuleRequest(tuple([RuleConfiguration(rule) for rule in rules]))
        (folder / name / RULE_REQUEST_KEY).write_text(request.to_json())
        write_record(folder / name, RunRecord(("python", "train.py"), 1.0, 2.0, 0))
    with served(tmp_path) as server:
        page = server.page("/")
        rows = {row.split('value="')[1].split('"')[0]: row for row in page.split("<tr>")[2:]}
        unjudged = server.page("/?worst=not-judged")
    assert "✔ none" in rows["right"]
    assert "◌ hardly judged" in rows["few"]
    assert "◌ none, not better than guessing" in rows["idle"]
    assert not any("✔" in rows[name] for name in ("few", "idle"))
    assert [name for name in rows if f'value="{name}"' in unjudged] == ["few"]


def test_the_list_names_room_and_time_of_each_run(tmp_path: Path) -> None:
    folder = tmp_path / ".trackside/runs"
    write_judged_run(folder / "spoiled", verdicts=(issue(),))
    write_record(folder / "spoiled", RunRecord(("python", "train.py"), 1_000_000.0 - 3600, 1_000_000.0 + 1800, 0))
    write_judged_run(folder / "right", verdicts=(no_issue(),))
    write_record(folder / "right", RunRecord(("python", "train.py"), 1_000_000.0, 1_000_060.0, 0))
    write_judged_run(folder / "unread", verdicts=())
    (folder / "unread/rule-output/verdicts.jsonl").unlink()
    (folder / "unread/rule-output/verdicts.jsonl").mkdir()
    (folder / "right/statistics/worker_0").mkdir(parents=True)
    (folder / "right/statistics/worker_0/big.bin").write_bytes(bytes(3_000_000))
    with served(tmp_path) as server:
        rows = {
            next((name for name in ("spoiled", "right") if f'value="{name}"' in row), "unread"): row
            for row in server.page("/").split("<tr>")[2:]
        }
        page = seen(server.page("/")).text
    assert "1 h 30 min" in rows["spoiled"]
    assert "30 min 0 s after ✖ was found" in rows["spoiled"]
    assert "1 min 0 s" in rows["right"]
    assert "was found" not in rows["right"]
    assert "3 MB" in rows["right"]
    assert " kB" in rows["spoiled"] or " B" in rows["spoiled"]
    assert "They trained for 1 h 31 min (known of 2): 1 h 30 min of it in runs that a critical issue spoiled" in page
    assert ", 30 min 0 s after it was found." in page


def test_a_filter_looks_through_hundreds_of_runs_and_keeps_over_pages(tmp_path: Path) -> None:
    for place in range(220):
        runs = tmp_path / ".trackside/runs"
        write_judged_run(runs / f"run-{place:03}", verdicts=(ISSUE,) if place % 2 else ())
    with served(tmp_path) as server:
        found = seen(server.page("/?rule=vanishing-gradient&q=run&page=2"))
        assert "110 runs in" in found.text
        shown = [str(a["value"]) for name, a in found.elements if name == "input" and a.get("name") == "run"]
        assert len(shown) == 50
        pages = {str(a["href"]) for name, a in found.elements if name == "a" and "page=" in str(a["href"])}
        assert "/?q=run&rule=vanishing-gradient&page=3" in pages


def test_a_finding_leads_to_the_tensor_at_its_step(server: Served) -> None:
    found = seen(server.page("/runs/faulty"))
    (evidence,) = {str(a["href"]) for name, a in found.elements if name == "a" and "steps=" in str(a.get("href"))}
    page = seen(server.page(evidence))
    assert HOSTILE in page.text
    assert [a for _, a in page.elements if str(a.get("class")).startswith("span")]


@pytest.mark.parametrize(
    ("tensor", "steps", "is_shaded"),
    [
        pytest.param(HOSTILE, "", True, id="of-an-issue"),
        pytest.param(HOSTILE, f"0:{ISSUE.since_step - 1}", False, id="before-the-issue"),
        pytest.param("gradient/Net_fc.bias", "", False, id="another"),
    ],
)
def test_the_steps_of_an_issue_about_a_tensor_are_shaded(
    server: Served, tensor: str, steps: str, is_shaded: bool
) -> None:
    page = seen(server.page(f"/runs/faulty/tensor?name={quote(tensor)}&steps={steps}"))
    assert [a for _, a in page.elements if a.get("class") == "chart"]
    assert any(str(a.get("class")).startswith("span") for _, a in page.elements) is is_shaded


@pytest.mark.parametrize(
    ("query", "axis"),
    [
        pytest.param("", "0,399", id="all"),
        pytest.param("?steps=100:199", "100,199", id="some"),
        pytest.param("?steps=350:", "350,399", id="to-the-end"),
        pytest.param("?steps=:10", "0,10", id="from-the-start"),
        pytest.param("?from=20&to=30", "20,30", id="as-the-form-sends-them"),
        pytest.param("?from=&to=", "0,399", id="an-empty-form"),
        pytest.param("?steps=5000:6000", "0,399", id="beyond-the-run"),
        pytest.param("?steps=300:200", "0,399", id="backwards"),
        pytest.param("?steps=-5:1e9", "0,399", id="no-numbers"),
        pytest.param("?steps=99999999999999999999:", "0,399", id="a-number-without-end"),
    ],
)
def test_the_address_chooses_the_steps(server: Served, query: str, axis: str) -> None:
    for path in ("/runs/right", "/runs/right/tensor"):
        named = f"{query}{'&' if query else '?'}name={LOSS}" if path.endswith("tensor") else query
        charts = [a for _, a in seen(server.page(f"{path}{named}")).elements if a.get("class") == "chart"]
        assert charts
        assert {chart["data-steps"] for chart in charts} == {axis}


def test_one_broken_number_among_many_is_seen_at_every_size(server: Served) -> None:
    for query in ("", "?steps=100:300", "?steps=123:123"):
        marks = [a for _, a in seen(server.page(f"/runs/right{query}")).elements if a.get("class") == "broken"]
        assert len(marks) == 1
    assert not [a for _, a in seen(server.page("/runs/right?steps=130:300")).elements if a.get("class") == "broken"]


def test_a_finding_leads_to_how_it_began(server: Served) -> None:
    links = {str(a.get("href")) for name, a in seen(server.page("/runs/faulty")).elements if name == "a"}
    (address,) = [link for link in links if "/incident?" in link]
    assert "Go back to a checkpoint" in server.page(address) or "from the start" in server.page(address)


@pytest.mark.parametrize("wanted", ["", "unknown", "../../secret.txt"])
def test_a_problem_that_is_not_known_is_no_page(server: Served, wanted: str) -> None:
    answer = server.ask(f"/runs/faulty/incident?of={quote(wanted)}")
    assert answer.status == 404
    assert "secret of the machine" not in answer.text


def test_two_runs_are_compared(server: Served) -> None:
    text = seen(server.page("/compare?run=faulty&run=right")).text
    assert "A went wrong: vanishing-gradient, since step 4. B is not judged." in text
    assert text.index("A went wrong") < text.index("What differs"), "the verdict comes first"
    assert "only A has an issue: vanishing-gradient" in text
    assert "400 common steps" in text
    assert server.ask("/compare?run=faulty&run=faulty").status == 200


def test_three_runs_stand_side_by_side(server: Served) -> None:
    page = server.page("/compare?run=faulty&run=right&run=torn")
    text = seen(page).text
    assert "vanishing-gradient since step" in text
    assert "✔ no issue" not in text, "no rule has judged the others"
    assert text.count("not judged") == 2
    assert "1: faulty" in text
    assert "3: torn" in text


@pytest.mark.parametrize("query", ["", "?run=faulty", "?" + "&".join(["run=faulty"] * 11)])
def test_one_run_or_too_many_are_refused_with_what_to_do(server: Served, query: str) -> None:
    answer = server.ask(f"/compare{query}")
    assert answer.status == 400
    assert "Mark 2 to 10 in the list of runs" in seen(answer.text).text


def test_a_chosen_window_says_what_changed_in_it(server: Served) -> None:
    text = seen(server.page("/runs/faulty?steps=120:130")).text
    changed = text.rpartition("What changed here")[2].partition("How it began")[0]  # its heading, not its link
    assert changed.index(LOSS) < changed.index("not finite"), "the loss is not a number at step 123"
    assert "What changed here" not in seen(server.page("/runs/faulty")).text


def test_a_step_with_much_work_has_changed(server: Served) -> None:
    text = seen(server.page("/runs/right?steps=70:80")).text
    assert "trackside/step_seconds" in text[text.index("What changed here") :]
    assert "x 20" in text


def test_charts_are_drawn_by_time_on_request_and_the_address_keeps_it(server: Served) -> None:
    page = server.page("/runs/right?axis=time&steps=100:300")
    charts = [a for name, a in seen(page).elements if name == "svg" and a.get("class") == "chart"]
    assert all("data-clock" in chart for chart in charts)
    assert "3 min 20 s" in seen(page).text, "a step a second, 200 of them"
    assert 'name="axis" value="time"' in page
    assert "data-clock" not in server.page("/runs/right?axis=else")


@pytest.mark.parametrize("page", ["timeline", f"tensor?name={LOSS}"])
def test_the_other_pages_are_drawn_by_time_too(server: Served, page: str) -> None:
    path = f"/runs/right/{page}"
    by_steps = server.page(path)
    (link,) = [a["href"] for _, a in seen(by_steps).elements if a.get("class") == "axis-choice"]
    assert link == f"{path}{'&' if '?' in path else '?'}axis=time"
    by_time = server.page(f"{link}&steps=100:300")
    assert "3 min 20 s" in seen(by_time).text, "a step a second, 200 of them"
    assert "3 min 20 s" not in seen(by_steps).text
    assert 'name="axis" value="time"' in by_time, "the form of steps keeps the axis"
    (back,) = [a["href"] for _, a in seen(by_time).elements if a.get("class") == "axis-choice"]
    assert "axis" not in str(back)
    assert "steps=100%3A300" in str(back)


def test_the_report_as_a_file_has_the_cores_of_each_machine(server: Served) -> None:
    page = server.ask("/runs/right/report.html").text
    assert page.count("12 rows over 160 columns of steps") == 2
    assert "A row is a core" in page
    assert "A row is a core" not in server.ask("/runs/faulty/report.html").text, "without samples"


def test_the_report_is_saved_as_json_too(server: Served) -> None:
    answer = server.ask("/runs/faulty/report.json?steps=100:200")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''faulty-report.json"
    document = json.loads(answer.text)
    assert (document["schema_version"], document["first_step"], document["last_step"]) == (1, 100, 200)
    assert document["problems"][0]["rule"] == "vanishing-gradient"


def test_each_machine_has_a_tab_with_its_cores_and_quantiles(server: Served) -> None:
    first, second = (seen(server.page(f"/runs/right/machine{query}")) for query in ("", f"?node={quote(NODE)}"))
    tabs = [a for name, a in first.elements if name == "a" and "/machine?node=" in str(a.get("href"))]
    assert [tab.get("aria-current") for tab in tabs] == ["page", None]
    assert f"Machine {NODE}" in second.text
    assert "".join(f"cpu{place}" for place in range(12)) in first.text, "in the order of their numbers"
    assert "Cores in use, % from 0 (dark) to 100 (bright);" in first.text
    assert "Processors in use, %1010101010" in first.text
    assert "Processors in use, %1111111111" in second.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/runs/right/machine?node=algo-3", 404, id="no-such-machine"),
        pytest.param("/runs/right/machine?node=../../secret.txt", 404, id="a-path"),
        pytest.param("/runs/right/machine?steps=399:399", 200, id="one-step"),
        pytest.param("/runs/faulty/machine", 200, id="without-samples"),
    ],
)
def test_a_machine_that_is_not_known_is_no_page(server: Served, path: str, status: int) -> None:
    answer = server.ask(path)
    assert answer.status == status
    assert "secret of the machine" not in answer.text


def test_tensors_are_a_tree_with_a_curve_each(server: Served) -> None:
    page = seen(server.page("/runs/faulty/tensors"))
    assert [a for name, a in page.elements if name == "svg" and a.get("class") == "small-chart"]
    assert [a for name, a in page.elements if name == "span" and a.get("class") == "mark"], "what a finding names"
    assert any(str(a.get("class", "")).startswith("span") for _, a in page.elements), "the steps of the issue"
    for name, a in page.elements:
        assert name != "details" or "open" in a, "few tensors are all unfolded"


def test_what_a_finding_names_is_unfolded_among_many_tensors(tmp_path: Path) -> None:
    names = [HOSTILE, *(f"gradient/Net_h.{block}.{part}.weight" for block in range(20) for part in "abcdef")]
    write_run(tmp_path / ".trackside/runs/wide", verdicts=(ISSUE,), tensors=tuple(names), steps=20)
    with served(tmp_path) as server:
        elements = seen(server.page("/runs/wide/tensors")).elements
    branches = [a for name, a in elements if name == "details"]
    assert len(branches) > 20
    links = {str(a.get("href")) for name, a in elements if name == "a"}
    assert f"/runs/wide/tensors?q={quote('gradient/Net_h.3.', safe='')}&of=l2" in links
    assert sum("open" in a for a in branches) == 2, "the gradients, and the part of the model"


@pytest.mark.parametrize(
    ("expression", "status", "words"),
    [
        pytest.param("log10(l2)", 200, "log10(l2): 100 numbers up to step 396, 0 at first", id="of-this-tensor"),
        pytest.param('l2 / "gradient/Net_fc.bias"', 200, "100 numbers up to step 396, 10 at first", id="two"),
        pytest.param(f'mean("{LOSS}")', 200, "400 numbers up to step 399, 2 at first", id="a-loss"),
        pytest.param("moving_mean(l2, 20)", 200, "100 numbers up to step 396", id="a-moving-mean"),
        pytest.param("l2 / 0", 200, "not finite from step 0 on", id="broken-everywhere"),
        pytest.param("l2 +", 400, "character 5: A number, a statistic or a tensor is needed", id="a-mistake"),
        pytest.param('l2 / "fc.bias"', 400, "Near: gradient/Net_fc.bias.", id="a-part-of-a-name"),
        pytest.param("l2 / update_ratio", 400, "It has no number at these steps. Recorded: l2.", id="not-recorded"),
        pytest.param("<script>", 400, "&#x27;&lt;&#x27; has no meaning here", id="hostile"),
    ],
)
def test_an_expression_of_tensors_is_drawn_or_its_mistake_named(
    server: Served, expression: str, status: int, words: str
) -> None:
    answer = server.ask(f"/runs/faulty/tensor?name={quote(HOSTILE)}&expression={quote(expression)}")
    assert answer.status == status
    assert words in answer.text
    assert "<script>" not in answer.text.partition("</head>")[2]
    assert 'class="chart"' in answer.text, "the curves of the tensor stay"


def test_an_expression_stays_with_the_chosen_steps(server: Served) -> None:
    path = f"/runs/faulty/tensor?name={quote(HOSTILE)}&expression={quote('log10(l2)')}&steps=100:200"
    page = server.page(path)
    assert "log10(l2): 26 numbers up to step 200" in page
    elements = seen(page).elements
    hidden = [(a["name"], a["value"]) for name, a in elements if name == "input" and a.get("type") == "hidden"]
    assert hidden.count(("expression", "log10(l2)")) == 1, "in the form for steps"
    assert hidden.count(("steps", "100:200")) == 1, "in the form for the expression"


def test_saved_weights_are_compared_between_two_steps(server: Served) -> None:
    text = seen(server.page(f"/runs/faulty/difference?steps=0:400&name={quote(WEIGHT)}")).text
    assert "100 to 300" in text, "the steps at which it was saved"
    assert "200 elements at 2 saved steps" in text


def test_the_page_of_a_saved_tensor_has_its_distribution(server: Served) -> None:
    text = seen(server.page(f"/runs/faulty/tensor?name={quote(WEIGHT)}")).text
    assert "200 elements at 3 saved steps" in text
    assert "1 numbers are not finite" in text


def test_a_damaged_run_is_shown_as_far_as_it_can_be_read(server: Served) -> None:
    assert "torn" in seen(server.page("/runs/torn")).text


@pytest.mark.parametrize("steps", ["", "?steps=100:200"])
def test_the_report_is_saved_as_a_file_that_loads_nothing(server: Served, steps: str) -> None:
    (link,) = {
        str(a["href"]) for n, a in seen(server.page(f"/runs/faulty{steps}")).elements
        if n == "a" and "report.html" in str(a["href"])
    }  # fmt: skip
    answer = server.ask(link)
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''faulty-report.html"
    found = seen(answer.text)
    policy = next(str(a["content"]) for n, a in found.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert not [a for _, a in found.elements if "src" in a and not str(a["src"]).startswith("data:")]
    assert not [a for n, a in found.elements if n == "a" and not str(a["href"]).startswith("#")]
    assert server.ask(link, token=None).status == 401
