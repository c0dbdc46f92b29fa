"""Owns a stand-in for the part of pydantic that the harness's models use, for a file that has no packages to import.

It takes, turns and refuses what pydantic does in its lax mode, for the types that occur: strings, numbers, booleans,
None, `Literal`, `Any`, lists, tuples and dictionaries of one type, models, a union of these, and one of models told apart
by a field; any other is a TypeError. Bounds (`ge`, `le`) are not looked at: they are for case files, and the case
in such a file has been looked at when the file was written.
"""

from __future__ import annotations

import copy
import inspect
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")
Turn = Callable[[Any], Any]
_ABSENT: Any = object()
_INTEGER = re.compile(r"\s*[+-]?\d+(_\d+)*(\.0+)?\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(\d+(_\d+)*\.?\d*|\.\d+|inf|infinity|nan)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)
_YES, _NO = ("1", "on", "t", "true", "y", "yes"), ("0", "off", "f", "false", "n", "no")


class ValidationError(ValueError):
    """Data that does not fit, and the first place in it that does not."""

    def __init__(self, why: str, *loc: str | int) -> None:
        super().__init__(f"{'.'.join(map(str, loc))}: {why}" if loc else why)
        self.why, self.loc = why, loc

    def errors(self, **_: Any) -> list[dict[str, Any]]:
        """The first error, in pydantic's shape."""
        return [{"loc": self.loc, "msg": self.why}]


@dataclass(frozen=True)
class AfterValidator:
    """A function over a value that has been looked at."""

    func: Turn


@dataclass(frozen=True)
class BeforeValidator:
    """A function over a value as it came."""

    func: Turn


@dataclass(frozen=True)
class PlainSerializer:
    """A function that gives what is dumped of a value."""

    func: Turn
    return_type: Any = None


@dataclass(frozen=True)
class FieldInfo:
    """What `Field` was called with, or a bare default."""

    default: Any = _ABSENT
    alias: str | None = None
    discriminator: str | None = None


def Field(default: Any = _ABSENT, *, alias: str | None = None, discriminator: str | None = None, **_: Any) -> Any:
    """A field with more than a type."""
    return FieldInfo(default, alias, discriminator)


def ConfigDict(**settings: Any) -> dict[str, Any]:
    """The settings of a model: `extra`, `frozen`, `populate_by_name`."""
    return settings


class BaseModel:
    """A model: keyword arguments or a dictionary in, attributes out."""

    model_config: ClassVar[dict[str, Any]] = {}
    model_fields: ClassVar[dict[str, FieldInfo]] = {}
    _plan: ClassVar[dict[str, tuple[Turn, Turn | None]] | None] = None  # how each field is read, and dumped

    def __init_subclass__(cls) -> None:
        own = {name: cls.__dict__.get(name, _ABSENT) for name in inspect.get_annotations(cls)}
        infos = {name: each if isinstance(each, FieldInfo) else FieldInfo(each) for name, each in own.items()}
        cls.model_fields, cls._plan = cls.model_fields | infos, None

    def __init__(self, /, **data: Any) -> None:
        self.__dict__.update(self._read(data))

    def __setattr__(self, name: str, value: Any) -> None:
        if self.model_config.get("frozen"):
            raise ValidationError("Instance is frozen", name)
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    @classmethod
    def _planned(cls) -> dict[str, tuple[Turn, Turn | None]]:
        if cls._plan is None:
            hints = get_type_hints(cls, include_extras=True)
            cls._plan = {name: (_turn(hints[name]), _dumper(hints[name])) for name in cls.model_fields}
        return cls._plan

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        found, surplus = {}, dict(data)
        for name, (turn, _) in cls._planned().items():
            info = cls.model_fields[name]
            by_name = info.alias not in data and (info.alias is None or cls.model_config.get("populate_by_name"))
            key = name if by_name else str(info.alias)
            if key not in data and info.default is _ABSENT:
                raise ValidationError("Field required", info.alias or name)
            try:
                found[name] = turn(data[key]) if key in data else copy.deepcopy(info.default)
            except ValidationError as error:
                raise ValidationError(error.why, key, *error.loc) from None
            surplus.pop(key, None)
        if surplus and cls.model_config.get("extra") == "forbid":
            raise ValidationError("Extra inputs are not permitted", next(iter(surplus)))
        return found

    @classmethod
    def model_validate(cls, data: Any) -> Self:
        """The model in `data`: a dictionary, or one that is made already. Raises ValidationError."""
        return data if isinstance(data, cls) else cls._made(cls._read(_dictionary(data)))

    @classmethod
    def _made(cls, values: dict[str, Any]) -> Self:
        made = object.__new__(cls)
        made.__dict__.update(values)
        return made

    def model_dump(self, *, mode: str = "python", by_alias: bool = False) -> dict[str, Any]:
        """The model as plain data; with mode `json`, tuples become lists."""
        found = {}
        for name, (_, dump) in self._planned().items():
            key = (by_alias and self.model_fields[name].alias) or name
            value = self.__dict__[name]
            found[key] = dump(value) if dump else _dump(value, mode, by_alias)
        return found

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """The same with some fields replaced; these are not looked at."""
        return self._made({**self.__dict__, **(update or {})})


class TypeAdapter(Generic[T]):
    """Reads a value of a type that is no model."""

    def __init__(self, hint: Any) -> None:
        self._hint = hint

    def validate_python(self, data: Any) -> T:
        """The value in `data`. Raises ValidationError."""
        return cast(T, _turn(self._hint)(data))


# From a type to what reads it ----------------------------------------------------------------------------------------


def _turn(hint: Any) -> Turn:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint.model_validate
    if origin is Annotated:
        return _annotated(inner[0], inner[1:])
    if origin is Literal:
        return partial(_literal, inner)
    if origin is list or (origin is tuple and inner[1:] == (...,)):
        return partial(_items, origin, _turn(inner[0]))
    if origin is dict:
        return partial(_entries, _turn(inner[0]), _turn(inner[1]))
    if origin in (Union, types.UnionType):
        return partial(_any_of, {each: _turn(each) for each in inner})
    raise TypeError(f"{hint!r} is no type that this stand-in for pydantic knows")


def _annotated(hint: Any, extras: tuple[Any, ...]) -> Turn:
    apart = next((each.discriminator for each in extras if isinstance(each, FieldInfo) and each.discriminator), None)
    steps = [partial(_one_of, get_args(hint), apart) if apart else _turn(hint)]
    for extra in extras:
        if isinstance(extra, AfterValidator):
            steps.append(extra.func)
        elif isinstance(extra, BeforeValidator):
            steps.insert(0, extra.func)
    return partial(_in_turn, steps)


def _in_turn(steps: list[Turn], value: Any) -> Any:
    for step in steps:
        try:
            value = step(value)
        except ValidationError:
            raise
        except ValueError as error:
            raise ValidationError(f"Value error, {error}") from None
    return value


def _one_of(models: tuple[type[BaseModel], ...], name: str, value: Any) -> Any:
    if isinstance(value, models):
        return value
    word = _dictionary(value).get(name)
    for model in models:
        if word in get_args(get_type_hints(model)[name]):
            return model.model_validate(value)
    raise ValidationError(f"Input tag {word!r} found using {name!r} does not match any of the expected tags")


def _any_of(turns: dict[Any, Turn], value: Any) -> Any:
    """What needs no turning goes before what does; else the first that takes it."""
    for turn in (turns[type(value)],) if type(value) in turns else turns.values():
        try:
            return turn(value)
        except ValidationError as error:
            last = error
    raise last


def _none(value: Any) -> None:
    if value is not None:
        raise ValidationError("Input should be None")


def _items(kind: Callable[[list[Any]], Any], each: Turn, value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise ValidationError(f"Input should be a valid {kind.__name__}")
    return kind([each(item) for item in value])


def _entries(key: Turn, each: Turn, value: Any) -> dict[Any, Any]:
    return {key(name): each(item) for name, item in _dictionary(value).items()}


def _dictionary(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    raise ValidationError("Input should be a valid dictionary")


def _literal(words: tuple[Any, ...], value: Any) -> Any:
    if isinstance(value, str) and value in words:
        return value
    raise ValidationError(f"Input should be {' or '.join(map(repr, words))}")


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValidationError("Input should be a valid string")


def _integer(value: Any) -> int:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 2**63):
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value.partition(".")[0])
    raise ValidationError("Input should be a valid integer")


def _number(value: Any) -> float:
    if isinstance(value, (int, float)) or (isinstance(value, str) and _FLOAT.fullmatch(value)):
        return float(value)
    raise ValidationError("Input should be a valid number")


def _boolean(value: Any) -> bool:
    word = value.lower() if isinstance(value, str) else str(int(value)) if value in (0, 1) else ""
    if word not in _YES + _NO:
        raise ValidationError("Input should be a valid boolean")
    return word in _YES


_PLAIN: dict[Any, Turn] = {
    str: _string,
    int: _integer,
    float: _number,
    bool: _boolean,
    type(None): _none,
    Any: lambda value: value,
}


# And back to plain data ----------------------------------------------------------------------------------------------


def _dumper(hint: Any) -> Turn | None:
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each.func for each in extras if isinstance(each, PlainSerializer)), None)


def _dump(value: Any, mode: str, by_alias: bool) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode=mode, by_alias=by_alias)
    if isinstance(value, (list, tuple)):
        items = [_dump(item, mode, by_alias) for item in value]
        return tuple(items) if isinstance(value, tuple) and mode == "python" else items
    if isinstance(value, dict):
        return {key: _dump(item, mode, by_alias) for key, item in value.items()}
    return value
