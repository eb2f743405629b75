"""Reads the effects of a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64
from bson.errors import BSONError

from fakeserver.errors import CommandError
from fakeserver.rules.effects import Answer, Effects, Ending, Fail, RuleReply
from fakeserver.rules.reading import at, check_known, one_text, plain
from mongowire.codes import ErrorCode, Label, code_name
from mongowire.documents import arguments
from mongowire.documents.errors import ControlError, unknown
from mongowire.documents.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANSWERS: Final = ("error", "reply", "close", "silence", "pass")
_OF_ERRORS: Final = ("labels", "message", "extra")
_IN_ORDER: Final = ("delay", *_ANSWERS, "label", "writeConcernError")
EFFECTS: Final = (*_ANSWERS, "delay", "label", "writeConcernError", *_OF_ERRORS)
_ENDINGS: Final = {ending.value: ending for ending in Ending if ending is not Ending.HOLD}
_OF_REPLIES: Final = {
    "ok": "an error always has ok: 0",
    "code": "write the code as the error",
    "codeName": "the name belongs to the code",
    "errmsg": "write message",
    "errorLabels": "write labels",
}
_CODES: Final = {code.code_name: int(code) for code in ErrorCode}
_LABELS: Final = frozenset(str(label) for label in Label)
_INT32_MAX: Final = (1 << 31) - 1
_MESSAGE: Final = "Failing command via rule"


def effects_of(value: Any) -> Effects:
    """Return the effects that a list of documents states; one document is a list of one.

    Raises `ControlError` that names the field.
    """
    if hasattr(value, "keys"):
        return _merged([_effect(arguments.document(value))])
    if not isinstance(value, list | tuple):
        raise ControlError(f"{value!r} is no list of effects; write a document of each, as [{{error: 462}}]")
    return _merged([at(index, _effect, each) for index, each in enumerate(value)])


def _effect(value: Any) -> Effects:
    document = arguments.document(value)
    check_known("effect", document, EFFECTS)
    if not document:
        raise ControlError("the effect is empty")
    _check_company(document)
    answers = [name for name in _ANSWERS if name in document]
    if len(answers) > 1:
        raise ControlError(f"{answers[0]} and {answers[1]} are both answers; a request gets one")
    delay = at("delay", arguments.duration, document["delay"]) if "delay" in document else 0.0
    concern = document.get("writeConcernError")
    alone = "labels" in document and "error" not in document
    return Effects(
        delay=delay,
        answer=_answer(answers[0], document) if answers else None,
        labels=at("label", labels_of, document["label"]) if "label" in document else (),
        write_concern_error=None if concern is None else at("writeConcernError", _concern_error, concern),
        replacing_labels=at("labels", labels_of, document["labels"]) if alone else None,
        name="+".join(name for name in _IN_ORDER if name in document),
    )


def _check_company(document: Mapping[str, Any]) -> None:
    """Refuse what says more of an error where there is none."""
    for name in _OF_ERRORS:
        allowed = "error" in document or (name == "labels" and "writeConcernError" in document)
        if name in document and not allowed:
            cure = "; label adds labels to any reply" if name == "labels" else ""
            raise ControlError(f"{name} goes with an error, and there is none{cure}", path=(name,))


def _merged(effects: list[Effects]) -> Effects:
    """Return several effects as one: delays add up, and only one of them may be an answer."""
    answers = [each for each in effects if each.answer is not None]
    if len(answers) > 1:
        first, second = (each.name.rpartition("+")[2] for each in answers[:2])
        raise ControlError(f"{first} and {second} are both answers; a request gets one")
    concerns = [each for each in effects if each.write_concern_error is not None]
    if len(concerns) > 1:
        raise ControlError("a reply has one writeConcernError")
    names = [name for each in effects for name in each.name.split("+") if name]
    return Effects(
        delay=sum(each.delay for each in effects),
        answer=answers[0].answer if answers else None,
        labels=tuple(label for each in effects for label in each.labels),
        write_concern_error=concerns[0].write_concern_error if concerns else None,
        replacing_labels=concerns[0].replacing_labels if concerns else None,
        name="+".join(name for name in _IN_ORDER if name in names),
    )


def _answer(name: str, document: Mapping[str, Any]) -> Answer:
    if name == "error":
        more = {each: document[each] for each in _OF_ERRORS if each in document}
        return failure(document["error"], **more)
    if name == "reply":
        return at("reply", reply_of, document["reply"])
    if document[name] is not True:
        raise ControlError(f"write {name}: true, or leave it out", path=(name,))
    return _ENDINGS[name]


def failure(code: Any, *, labels: Any = None, message: Any = None, extra: Any = None) -> Fail:
    """Return the answer with an error. Raises `ControlError`."""
    number = at("error", code_of, code)
    text = _MESSAGE if message is None else at("message", one_text, message)
    more = {} if extra is None else at("extra", _extra, extra)
    replacing = None if labels is None else at("labels", labels_of, labels)
    return Fail(CommandError(number, text, extra=more), replacing)


def code_of(value: Any) -> int:
    """Return an error code, which is given as a number or by its name. Raises `ControlError`."""
    if isinstance(value, str) and not value.isdigit():
        code = _CODES.get(value)
        if code is None:
            if nearest(value, _CODES):
                raise unknown("code name", value, _CODES)
            raise ControlError(f"unknown code name {value!r}; write the code's number")
        return code
    number = arguments.count(value)
    if not 0 < number <= _INT32_MAX:
        raise ControlError(f"{value!r} is no error code")
    return number


def labels_of(value: Any) -> tuple[str, ...]:
    """Return error labels. Raises `ControlError` for one that no server or driver knows."""
    labels = arguments.names(value)
    for label in labels:
        if label not in _LABELS:
            raise unknown("label", label, _LABELS)
    return tuple(labels)


def _extra(value: Any) -> dict[str, Any]:
    extra = _encodable(value)
    for name, cure in _OF_REPLIES.items():
        if name in extra:
            raise ControlError(cure, path=(name,))
    return extra


def reply_of(value: Any) -> Answer:
    """Return the answer with a document. Raises `ControlError` for one that is no BSON.

    A document with `ok: 0` and a code is an error, and seen as one by the journal and the error labels.
    """
    document = _encodable(value)
    cursor = document.get("cursor")
    if isinstance(cursor, dict) and type(cursor.get("id")) is int:
        cursor["id"] = Int64(cursor["id"])  # drivers take no other type, and JSON has none of its own
    code = document.get("code")
    if document.get("ok", 1) or not isinstance(code, int) or isinstance(code, bool):
        return RuleReply(document)
    own = {"ok", "errmsg", "code", "errorLabels"}
    extra = {name: each for name, each in document.items() if name not in own}
    labels = document.get("errorLabels", [])
    error = CommandError(int(code), str(document.get("errmsg", "")), extra=extra)
    return Fail(error, tuple(labels) if isinstance(labels, list) else ())


def _encodable(value: Any) -> dict[str, Any]:
    document: dict[str, Any] = plain(arguments.document(value))
    try:
        bson.encode(document)
    except (BSONError, OverflowError, TypeError, ValueError) as error:
        raise ControlError(f"no BSON: {error}") from None
    return document


def _concern_error(value: Any) -> dict[str, Any]:
    """Return a write concern error: a document, or its code alone."""
    document = _encodable(value) if hasattr(value, "keys") else {"code": value}
    check_known("field", document, ("code", "codeName", "errmsg", "errInfo"))
    if "code" not in document:
        raise ControlError("a write concern error needs a code")
    code = at("code", code_of, document["code"])
    return {"code": code, "codeName": code_name(code), "errmsg": "Write concern error of a rule"} | {
        name: each for name, each in document.items() if name != "code"
    }
