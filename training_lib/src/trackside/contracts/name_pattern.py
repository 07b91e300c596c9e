"""Regular expressions for names of tensors, with a search of bounded time.

`re` backtracks: some patterns take hours for a short name (OWASP's "Regular expression denial of service"), and hold
the interpreter's lock meanwhile, so that no other rule, no timer and no signal handler of the process runs. Patterns
come from others: from rule requests, capture requests and collections files. Here each pattern has a bound.

- A name that `re` searches within `MOST_VISITS` in the worst case is left to `re`. Most patterns are of this kind.
- Any other name is matched by an automaton that is in all its states at once. Its time is the name's length times the
  states (with lookarounds: times the length once more), and it releases the interpreter's lock.

Back-references, conditions, atomic groups and possessive repeats have no such automaton and are refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from trackside.contracts.cached_property import cached_property

if sys.version_info >= (3, 11):
    from re import _compiler, _parser  # type: ignore[attr-defined]
else:
    import sre_compile as _compiler
    import sre_parse as _parser

MOST_VISITS = 5_000_000  # of one item of a pattern at one place of a name: at most about 50 ms in `re`
MOST_PARTS = 10_000  # with repeats written out
MOST_LETTERS = 10_000
MOST_DEPTH = 50  # groups within groups
_MOST_REMEMBERED = 100_000  # states, in all remembered sets of an automaton
_LENGTHS = (4096, 1024, 512, 256, 128, 64, 32)
_UNBOUNDED = 10**12
_UNSUPPORTED = {
    "GROUPREF": r"back-references (\1)",
    "GROUPREF_EXISTS": "conditions (?(1)...)",
    "ATOMIC_GROUP": "atomic groups (?>...)",
    "POSSESSIVE_REPEAT": "possessive repeats (a*+)",
}
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT"}
_LOOKAROUNDS = {"ASSERT", "ASSERT_NOT"}

_Items = Sequence[tuple[Any, Any]]  # of a parsed pattern: (operation, its arguments)


class PatternRefusedError(re.error):
    """A regular expression of Python's without a search of bounded time."""


class NamePattern:
    """A regular expression that is searched for in names, within a bounded time.

    Attributes:
        pattern: The text of the expression.
    """

    def __init__(self, pattern: str) -> None:
        """Compile the pattern.

        Args:
            pattern: A regular expression of Python's `re`.

        Raises:
            re.error: It is no regular expression.
            PatternRefusedError: It is one without a search of bounded time.
        """
        self.pattern = pattern
        if len(pattern) > MOST_LETTERS:
            raise PatternRefusedError(f"it has {len(pattern)} characters, and {MOST_LETTERS} are the limit")
        try:
            tree: Any = _parser.parse(pattern)
            self._backtracking: re.Pattern[str] = _compiler.compile(tree)
            parts = _parts(tree)
        except OverflowError:
            raise PatternRefusedError("a number in it is too large") from None
        except RecursionError:
            raise PatternRefusedError(f"its groups are nested deeper than {MOST_DEPTH}") from None
        if parts > MOST_PARTS:
            raise PatternRefusedError(f"with its repeats written out it has more than {MOST_PARTS} parts")
        self._tree = tree

    def search(self, name: str) -> bool:
        """Return True if the pattern is found anywhere in `name`, as `re.search` finds it."""
        if len(name) <= self.longest_for_backtracking:
            return self._backtracking.search(name) is not None
        return self.automaton.search(name)

    @cached_property
    def longest_for_backtracking(self) -> int:
        """The length of the longest name that `re` searches within `MOST_VISITS`; 0 if no length is safe."""
        return next((length for length in _LENGTHS if self.most_visits(length) <= MOST_VISITS), 0)

    def most_visits(self, length: int) -> int:
        """Return the most visits of the pattern's items by `re` in a name of `length` letters: never understated."""
        return _most_visits(self._tree, length)

    @cached_property
    def automaton(self) -> Automaton:
        """The automaton of the pattern, for names of any length."""
        return Automaton(self._tree, self._tree.state.flags)

    def __repr__(self) -> str:
        return f"NamePattern({self.pattern!r})"


@lru_cache(maxsize=256)
def name_pattern(pattern: str) -> NamePattern:
    """Return the compiled pattern, each text compiled once. Errors: those of `NamePattern`."""
    return NamePattern(pattern)


def problem_of(error: re.error) -> str:
    """Return the clause that follows a pattern in a message: `is no regular expression: ...` or `is refused: ...`."""
    return f"{'is refused' if isinstance(error, PatternRefusedError) else 'is no regular expression'}: {error}"


def _parts(items: _Items, depth: int = 0) -> int:
    """Return an upper bound of an automaton's states. Errors: `PatternRefusedError` for items that have none."""
    if depth > MOST_DEPTH:
        raise PatternRefusedError(f"its groups are nested deeper than {MOST_DEPTH}")
    count = 0
    for operation, arguments in items:
        name = str(operation)
        if name in _UNSUPPORTED:
            raise PatternRefusedError(f"{_UNSUPPORTED[name]} need a search without a bound on its time")
        if name in _REPEATS:
            least, most, body = arguments
            count += (_parts(body, depth + 1) + 1) * (least + 1 if most == _parser.MAXREPEAT else max(most, 1))
        else:
            count += 1 + sum(_parts(inner, depth + 1) for inner in _inner(name, arguments))
    return count


def _inner(name: str, arguments: Any) -> Sequence[_Items]:
    """Return the sequences inside an item that is no repeat."""
    if name == "BRANCH":
        return tuple(arguments[1])
    if name == "SUBPATTERN":
        return (arguments[3],)
    return (arguments[1],) if name in _LOOKAROUNDS else ()


def _most_visits(tree: _Items, length: int) -> int:
    """Return the most visits of the pattern's items by `re` in a name of `length` letters. Exceeds, never understates.

    Backtracking walks a tree of choices. An item is visited at most once for each combination of choices before it.
    """
    begins = bool(tree) and str(tree[0][0]) == "AT" and str(tree[0][1]) in {"AT_BEGINNING", "AT_BEGINNING_STRING"}
    return length + 1 + (1 if begins else length + 1) * _of_sequence(tree, length)[1]


def _of_sequence(items: _Items, length: int) -> tuple[int, int]:
    """Return (ways to match, visits) of items in a row."""
    ways, visits = 1, 0
    for operation, arguments in items:
        item_ways, item_visits = _of_item(str(operation), arguments, length)
        visits = min(visits + ways * item_visits, _UNBOUNDED)
        ways = min(ways * item_ways, _UNBOUNDED)
    return ways, visits


def _of_item(operation: str, arguments: Any, length: int) -> tuple[int, int]:
    if operation in _REPEATS:
        least, most, body = arguments
        return _of_repeat(least, min(int(most), least + length + 1), *_of_sequence(body, length))
    each = [_of_sequence(inner, length) for inner in _inner(operation, arguments)]
    visits = 1 + sum(visits for _, visits in each)
    if operation in _LOOKAROUNDS or not each:
        return 1, visits  # once a lookaround holds, `re` never enters it again
    return sum(ways for ways, _ in each), visits


def _of_repeat(least: int, most: int, ways: int, visits: int) -> tuple[int, int]:
    if ways == 1:
        return most - least + 1, (most + 1) * (visits + 1)
    all_ways = all_visits = 0
    power = 1
    for count in range(most + 1):
        all_ways += power if count >= least else 0
        all_visits += power * (visits + 1)
        if all_visits > _UNBOUNDED:
            return _UNBOUNDED, _UNBOUNDED
        power *= ways
    return all_ways, all_visits


class Automaton:
    """A nondeterministic automaton (Thompson's) of a pattern, or of the inside of a lookaround.

    A state is an index. It either takes a letter (`_takes`), or moves on at once (`_moves`), under a condition if it
    has one (`_conditions`). State 0 is the end: the pattern is found.
    """

    def __init__(self, items: _Items, flags: int) -> None:
        self._takes: dict[int, tuple[Callable[[str], bool], int]] = {}
        self._moves: dict[int, tuple[int, ...]] = {}
        self._conditions: dict[int, Callable[[str, int], bool]] = {}
        self._count = 1
        self._closures: dict[frozenset[int], frozenset[int]] = {}
        self._followers: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._remembered = 0
        self._start = self._sequence(items, flags, 0)

    def search(self, name: str) -> bool:
        """Return True if a match begins anywhere in the name."""
        return self._runs(name, 0, anywhere=True)

    def matches(self, name: str, place: int) -> bool:
        """Return True if a match begins at `place`."""
        return self._runs(name, place, anywhere=False)

    def _runs(self, name: str, place: int, *, anywhere: bool) -> bool:
        start = frozenset((self._start,))
        active = start
        while True:
            reached = self._closure(active, name, place)
            if 0 in reached:
                return True
            if place == len(name) or not (reached or anywhere):
                return False
            active = self._after(reached, name[place])
            active = active | start if anywhere else active
            place += 1

    def _closure(self, active: frozenset[int], name: str, place: int) -> frozenset[int]:
        """Return the states that take a letter, and the end, as far as they are reached without one."""
        known = self._closures.get(active)
        if known is not None:
            return known
        reached, waiting, seen, is_the_same_everywhere = set(), list(active), set(active), True
        while waiting:
            state = waiting.pop()
            if state == 0 or state in self._takes:
                reached.add(state)
                continue
            if state in self._conditions:
                is_the_same_everywhere = False
                if not self._conditions[state](name, place):
                    continue
            new = [each for each in self._moves[state] if each not in seen]
            seen.update(new)
            waiting += new
        found = frozenset(reached)
        if is_the_same_everywhere:
            self._remember(self._closures, active, found)
        return found

    def _after(self, reached: frozenset[int], letter: str) -> frozenset[int]:
        known = self._followers.get((reached, letter))
        if known is None:
            known = frozenset(self._takes[state][1] for state in reached if self._takes[state][0](letter))
            self._remember(self._followers, (reached, letter), known)
        return known

    def _remember(self, known: dict[Any, frozenset[int]], key: Any, value: frozenset[int]) -> None:
        self._remembered += len(value) + 1
        if self._remembered > _MOST_REMEMBERED:
            self._remembered = 0
            self._closures.clear()
            self._followers.clear()
        known[key] = value

    # From a parsed pattern to states, from its end to its beginning.

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def _sequence(self, items: _Items, flags: int, after: int) -> int:
        for operation, arguments in reversed(items):
            after = self._item(str(operation), operation, arguments, flags, after)
        return after

    def _item(self, name: str, operation: Any, arguments: Any, flags: int, after: int) -> int:
        if name in {"BRANCH", "FAILURE"}:
            return self._any_of([self._sequence(branch, flags, after) for branch in _inner(name, arguments)])
        if name == "SUBPATTERN":
            _, added, removed, items = arguments
            flags = flags & ~_parser.TYPE_FLAGS if added & _parser.TYPE_FLAGS else flags
            return self._sequence(items, (flags | added) & ~removed, after)
        if name in _REPEATS:
            return self._repeat(arguments, flags, after)
        if name in _LOOKAROUNDS:
            direction, items = arguments
            back = items.getwidth()[0] if direction < 0 else 0  # `re` takes lookbehinds of one width only
            return self._if(_lookaround(Automaton(items, flags), back, wanted=name == "ASSERT"), after)
        alone = _compiled([(operation, arguments)], flags)
        if name == "AT":
            return self._if(lambda text, place: alone.match(text, place) is not None, after)
        state = self._new()
        self._takes[state] = (lambda letter: alone.match(letter) is not None), after
        return state

    def _any_of(self, states: Iterable[int]) -> int:
        state = self._new()
        self._moves[state] = tuple(states)
        return state

    def _if(self, condition: Callable[[str, int], bool], after: int) -> int:
        state = self._any_of((after,))
        self._conditions[state] = condition
        return state

    def _repeat(self, arguments: tuple[int, int, _Items], flags: int, after: int) -> int:
        least, most, items = arguments
        if most == _parser.MAXREPEAT:
            state = self._any_of(())
            self._moves[state] = (self._sequence(items, flags, state), after)
        else:
            state = after
            for _ in range(most - least):
                body = self._sequence(items, flags, state)
                if body == state:  # an empty body
                    break
                state = self._any_of((body, after))
        for _ in range(least):
            body = self._sequence(items, flags, state)
            if body == state:
                break
            state = body
        return state


def _lookaround(automaton: Automaton, back: int, *, wanted: bool) -> Callable[[str, int], bool]:
    """Return the condition that a match begins (does not begin) `back` letters before a place.

    The answers for the newest name are kept, so that a name is looked through once from each place.
    """
    newest: tuple[str, dict[int, bool]] = ("", {})

    def holds(name: str, place: int) -> bool:
        nonlocal newest
        memory = newest if newest[0] == name else (name, {})
        newest, answers = memory, memory[1]  # another thread may replace `newest` at any moment
        if place not in answers:
            answers[place] = (place >= back and automaton.matches(name, place - back)) is wanted
        return answers[place]

    return holds


def _compiled(items: list[tuple[Any, Any]], flags: int) -> re.Pattern[str]:
    """Return one letter or one anchor of a pattern by itself, so that `re` decides about it."""
    state = _parser.State()
    state.flags = flags
    compiled: re.Pattern[str] = _compiler.compile(_parser.SubPattern(state, items))
    return compiled
