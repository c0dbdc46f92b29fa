"""The stand-in for pydantic reads, refuses and dumps what pydantic does, for every model that a reproducer uses.

The stand-in runs where it is meant to run: in a Python without any package, under the harness's own modules.
"""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

import faults.plan
import reports.model
import scenarios.case
import scenarios.snapshot
from reports.model import Cell
from scenarios import matrix, reproducer
from scenarios.case import Case
from scenarios.library import SCENARIOS
from scenarios.matrix import Wanted
from scenarios.snapshot import Snapshot
from scenarios.targets.runtime import REFERENCE
from tests.scenarios.runs import ROOT

MODELS: dict[str, type[BaseModel]] = {"Case": Case, "Snapshot": Snapshot, "Cell": Cell}
# Every model of the modules that make and judge a history.
MODELS_CARRIED = [
    each
    for module in (faults.plan, reports.model, scenarios.case, scenarios.snapshot)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, BaseModel) and each.__module__ == module.__name__
]
Ask = Callable[[str, Any], Any]

_CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pydantic import BaseModel, ValidationError
from reports.model import Cell
from scenarios.case import Case
from scenarios.snapshot import Snapshot
assert "site" not in sys.modules and sys.modules["pydantic"].__file__.startswith(sys.argv[1])
for line in sys.stdin:
    name, data = json.loads(line)
    if name == "every model":
        every = [BaseModel]
        for model in every:
            every += model.__subclasses__()
            model._planned()
        print(json.dumps({"models": len(every) - 1}), flush=True)
        continue
    try:
        model = {"Case": Case, "Snapshot": Snapshot, "Cell": Cell}[name].model_validate(data)
        found = {"dump": model.model_dump(mode="json", by_alias=True), "repr": repr(model.model_dump())}
        print(json.dumps(found), flush=True)
    except ValidationError as error:
        print(json.dumps({"refused": list(map(str, error.errors()[0]["loc"]))}), flush=True)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """What the models make of data in a Python that has the stand-in for pydantic, and no package."""
    home = tmp_path_factory.mktemp("home")
    for path, text in reproducer.closure("scenarios/judge.py").items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    for package, path in reproducer.STAND_INS.items():
        (home / package).write_text((ROOT / path).read_text())
    command = [sys.executable, "-I", "-S", "-c", _CHILD, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout

        def ask(name: str, data: Any) -> Any:
            assert child.stdin and child.stdout
            child.stdin.write(json.dumps([name, data]) + "\n")
            child.stdin.flush()
            return json.loads(child.stdout.readline())

        yield ask
        child.stdin.close()


def test_every_model_that_is_carried_is_of_types_that_it_knows(alone: Ask) -> None:
    assert alone("every model", None) == {"models": len(MODELS_CARRIED)}


def with_pydantic(name: str, data: Any) -> Any:
    try:
        model = MODELS[name].model_validate(data)
    except ValidationError as error:
        return {"refused": [str(part) for part in error.errors()[0]["loc"]]}
    return {"dump": model.model_dump(mode="json", by_alias=True), "repr": repr(model.model_dump())}


def same(theirs: Any, ours: Any) -> bool:
    """Refused by both, or read as the same by both. Of several faults pydantic names all, the stand-in one of them."""
    return repr(theirs) == repr(ours) or ("refused" in theirs and "refused" in ours)


# Values of every kind that JSON has, and text that looks like another kind: what a target might show by mistake.
STRANGE: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    10**30,
    0.0,
    1.0,
    1.5,
    -2.0,
    1e20,
    [],
    [1],
    ["x"],
    {},
    {"x": 1},
    {"x": []},
]
STRANGE += [
    "",
    " ",
    "0",
    "1",
    "2",
    " 7 ",
    "-3",
    "+3",
    "1.0",
    "1.",
    "1.5",
    "1e3",
    "1_0",
    "_1",
    "1__0",
    "0x1",
    "٣",
    ".5",
    "1e",
    "--1",
]
STRANGE += [
    "TRUE",
    "true",
    "off",
    "y",
    "Yes",
    "N",
    "T",
    " true",
    "nan",
    "Infinity",
    "-inf",
    "x",
    "done",
    "run",
    "user",
    "null",
]
SCALARS = st.sampled_from([value for value in STRANGE if not isinstance(value, (list, dict))])
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
)


def shaped(hint: Any) -> st.SearchStrategy[Any]:
    """Data of this type, as JSON has it; one time in so many anything else."""
    return st.integers(0, 30).flatmap(lambda n: ANYTHING if n == 0 else _shaped(hint))


def _shaped(hint: Any) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return shaped(inner[0])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (list, tuple):
        return st.lists(shaped(inner[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(st.text(max_size=3), shaped(inner[1]), max_size=2)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(shaped, inner))
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return _model(hint)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=3),
        int: st.integers(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
        Any: ANYTHING,
    }
    return plain[hint]


def _model(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    fields = {field.alias or name: shaped(field.annotation) for name, field in model.model_fields.items()}
    required = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
    return st.fixed_dictionaries(
        {name: fields[name] for name in required},
        optional={**{name: fields[name] for name in fields.keys() - required}, "surplus": SCALARS},
    )


FIELDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "whole number": lambda value: {"sessions": {"s": {"session": "s", "control_version": value}}},
    "whole number or none": lambda value: {"sessions": {"s": {"session": "s", "event": value}}},
    "number": lambda value: {"sessions": {"s": {"session": "s", "effects": [_EFFECT | {"dispatched_at": value}]}}},
    "truth": lambda value: {"sessions": {"s": {"session": "s", "inputs": [_INPUT | {"consumed": value}]}}},
    "text": lambda value: {"sessions": {"s": {"session": value}}},
    "text or none": lambda value: {"sessions": {"s": {"session": "s", "state": value}}},
    "one of some words": lambda value: {"sessions": {"s": {"session": "s", "desired_state": value}}},
    "texts": lambda value: {"sessions": {"s": {"session": "s", "effects": [_EFFECT | {"checks": value}]}}},
    "anything by name": lambda value: {"sessions": {"s": {"session": "s", "transcript": [_item(value)]}}},
    "models": lambda value: {"sessions": {"s": {"session": "s", "works": value}}},
    "models by name": lambda value: {"sessions": value},
    "a model or none": lambda value: {"sessions": {"s": {"session": "s", "totals": value}}},
    "a number of either kind": lambda value: _CELL | {"evidence": {"seen": {"x": value}}},
    "all of it": lambda value: value,
}
_CELL = dict.fromkeys(("id", "scenario", "family", "point", "fault", "entrance"), "x") | {"ordinal": 1, "status": "held"}
_EFFECT = {"call_id": "c", "tool": "t", "state": "failed"}
_INPUT = {"request_id": "r", "text": "t"}


def _item(arguments: Any) -> dict[str, Any]:
    return {"item": 1, "kind": "user", "calls": [{"call_id": "c", "tool": "t", "arguments": arguments}]}


@pytest.mark.parametrize("field", FIELDS)
def test_a_strange_value_is_turned_or_refused_as_by_pydantic(alone: Ask, field: str) -> None:
    read = 0
    for value in STRANGE:
        data = FIELDS[field](value)
        name = "Cell" if isinstance(data, dict) and "id" in data else "Snapshot"
        theirs, ours = with_pydantic(name, data), alone(name, data)
        assert same(theirs, ours), (value, theirs, ours)
        read += "dump" in theirs
    assert 0 < read < len(STRANGE)


@given(_model(Snapshot))
@settings(max_examples=60)
def test_a_snapshot_is_read_as_pydantic_reads_it(alone: Ask, data: Any) -> None:
    theirs, ours = with_pydantic("Snapshot", data), alone("Snapshot", data)
    assert same(theirs, ours), (theirs, ours)


@given(_model(Cell))
@settings(max_examples=30)
def test_what_was_found_is_read_as_pydantic_reads_it(alone: Ask, data: Any) -> None:
    theirs, ours = with_pydantic("Cell", data), alone("Cell", data)
    assert same(theirs, ours), (theirs, ours)


def cases() -> list[Case]:
    """Every scenario of the library, broken in every way that the table has for it at its first points."""
    wanted = Wanted()
    reached = {name: dict.fromkeys(REFERENCE.points, (1,)) for name in SCENARIOS}
    return list(matrix.expand(REFERENCE, wanted, reached))[::7]


def test_every_case_is_read_and_dumped_as_by_pydantic(alone: Ask) -> None:
    played = cases()
    assert len(played) > 50 and {op.do for case in played for fault in case.plan for op in fault.ops} >= {
        "kill",
        "user",
        "answer",
    }
    for case in played:
        data = json.loads(case.to_json())
        assert alone("Case", data) == with_pydantic("Case", data)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"surplus": 1}, ["surplus"]),
        ({"script": None}, ["script"]),
        ({"steps": [{"do": "fly"}]}, ["steps"]),
        ({"steps": [{"do": "send", "request": "r1"}]}, ["steps"]),
        ({"plan": [{"at": "no.such.point#1"}]}, ["plan"]),
        ({"plan": [{"at": "turn.begun#1", "ops": [{"do": "raise", "errno": "EWHAT"}]}]}, ["plan"]),
        ({"steps": [{"do": "file", "path": "../x", "text": ""}]}, ["steps"]),
        ({"policy": "never"}, ["policy"]),
    ],
)
def test_a_case_that_does_not_fit_is_refused_at_its_place(alone: Ask, change: dict[str, Any], where: list[str]) -> None:
    data = {**json.loads(cases()[0].to_json()), **change}
    assert with_pydantic("Case", data)["refused"][:1] == where
    assert alone("Case", data)["refused"][:1] == where
