"""The conversation in the source record of a run, as trainers take it: messages with roles."""

import json
from collections.abc import Iterator
from typing import Any, Final

Message = dict[str, Any]

_ROLES: Final = {
    **dict.fromkeys(("gpt", "chatgpt", "ai", "model", "bot"), "assistant"),
    **dict.fromkeys(("function", "observation", "tool_response", "function_response"), "tool"),
    "human": "user",
    "developer": "system",
}
"""Roles of ShareGPT and others, by the names that chat templates know."""
_FIELDS: Final = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")
"""What chat templates read of a message."""
_SAYS: Final = frozenset({"content", "tool_calls", "function_call"})
"""Members of which a message has one."""
_NAMES: Final = ("messages", "conversations", "conversation", "trajectory", "traj", "history")
"""Members that hold the conversation of a record, the surest first."""
_DEEPEST: Final = 6
"""How deep lists of messages lie in a record, at most."""


def conversation(record: Any) -> tuple[list[Message], str | None]:
    """The messages of a record and, if there are none to train on, why.

    Parameters
    ----------
    record
        A decoded record: of a data set of conversations, a benchmark, a harness.

    Returns
    -------
    tuple
        Messages with ``role`` and ``content``, up to the last one of the assistant; and None, or
        ``conversation.absent`` (no list of messages), ``conversation.several`` (more than one, or one that
        branches, as of several agents), ``conversation.unanswered`` (no message of the assistant).

    Examples
    --------
    >>> from orchestrace.trainers.conversations import conversation
    >>> turns = [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]
    >>> conversation({"id": 7, "conversations": turns})
    ([{'role': 'user', 'content': '2 + 2?'}, {'role': 'assistant', 'content': '4'}], None)
    >>> conversation({"steps": []})
    ([], 'conversation.absent')
    """
    messages = _by_format(record) if isinstance(record, dict) else None
    if messages is None:
        lists = list(_lists(record, _DEEPEST))
        if not lists:
            return [], "conversation.absent"
        messages = max(lists, key=len)
        if any(not _is_within(other, messages) for other in lists):
            return [], "conversation.several"
    if not messages:
        return [], "conversation.several"
    last = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    if last < 0:
        return [], "conversation.unanswered"
    return messages[: last + 1], None


def tools_of(record: Any) -> list[Any] | None:
    """The tools that a record declares beside its messages."""
    request = record.get("responses_create_params", record) if isinstance(record, dict) else None
    tools = _decoded(request.get("tools")) if isinstance(request, dict) else None
    return tools if isinstance(tools, list) and tools else None


def prompt_of(messages: list[Message]) -> list[Message]:
    """What stands before the first message of the assistant."""
    first = next(at for at, message in enumerate(messages) if message["role"] == "assistant")
    return messages[:first]


def parted(
    chosen: list[Message], rejected: list[Message]
) -> tuple[list[Message], list[Message], list[Message]] | None:
    """The prompt that two conversations share and what each goes on with; None if they share no prompt.

    They part before a message of the assistant in both. Two that are equal part nowhere: None.

    Examples
    --------
    >>> from orchestrace.trainers.conversations import parted
    >>> asked = {"role": "user", "content": "2 + 2?"}
    >>> right, wrong = ({"role": "assistant", "content": text} for text in "45")
    >>> parted([asked, right], [asked, wrong])[0] == [asked]
    True
    """
    shared = 0
    for message, other in zip(chosen, rejected, strict=False):
        if message != other:
            break
        shared += 1
    while shared and not all(
        len(each) > shared and each[shared]["role"] == "assistant" for each in (chosen, rejected)
    ):
        shared -= 1
    if chosen == rejected or not any(message["role"] == "user" for message in chosen[:shared]):
        return None
    return chosen[:shared], chosen[shared:], rejected[shared:]


# --- where formats keep them ------------------------------------------------------------------------------


def _by_format(record: dict[str, Any]) -> list[Message] | None:
    """The conversation of a record whose form is known, and an empty list where it has several."""
    if isinstance(traces := record.get("traces", [record]), list) and all(
        isinstance(trace, dict) and isinstance(trace.get("nodes"), list) for trace in traces
    ):
        return _of_nodes(traces[0]["nodes"]) if len(traces) == 1 else []
    request, response = record.get("responses_create_params"), record.get("response")
    if isinstance(request, dict) and isinstance(response, dict):
        inputs = request.get("input")
        inputs = [{"role": "user", "content": inputs}] if isinstance(inputs, str) else inputs
        parts = [part for part in (inputs, response.get("output")) if isinstance(part, list)]
        items = [item for part in parts for item in part]
        system = request.get("instructions")
        return ([{"role": "system", "content": system}] if system else []) + _of_items(items)
    for name in _NAMES:
        if (messages := _messages(record.get(name))) is not None:
            system = record.get("system")  # ShareGPT keeps it beside the messages
            if isinstance(system, str) and system and messages[0]["role"] != "system":
                return [{"role": "system", "content": system}, *messages]
            return messages
    ends = [_messages(record.get(name)) for name in ("prompt", "completion")]
    if all(ends):  # the two parts of one conversation
        return [message for end in ends for message in end or ()]
    return None


def _of_nodes(nodes: list[Any]) -> list[Message]:
    """Messages of verifiers, each of which names the one before it; none where they branch."""
    messages = []
    for place, node in enumerate(nodes):
        message = _message(node.get("message")) if isinstance(node, dict) else None
        if message is None or node.get("parent") != (place - 1 if place else None):
            return []
        messages.append(message)
    return messages


def _of_items(items: list[Any]) -> list[Message]:
    """Items of the Responses API: a call is one of the assistant's message before it, or makes one."""
    messages: list[Message] = []
    thought = None
    for item in items:
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if kind == "message":
            content = item.get("content")
            if isinstance(content, list):
                content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
            message = _message({**item, "content": content})
        elif kind == "reasoning":
            summary = item.get("summary")
            parts = summary if isinstance(summary, list) else []
            thought = "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
            continue
        elif kind == "function_call":
            call = {"name": item.get("name"), "arguments": item.get("arguments")}
            one_call = {"id": item.get("call_id"), "type": "function", "function": call}
            if messages and messages[-1]["role"] == "assistant":
                messages[-1].setdefault("tool_calls", []).append(one_call)
                continue
            message = {"role": "assistant", "content": "", "tool_calls": [one_call]}
        elif kind == "function_call_output":
            content = item.get("output")
            message = {"role": "tool", "content": content, "tool_call_id": item.get("call_id")}
        else:  # a tool of the provider, which no chat template knows
            return []
        if message is None:
            return []
        if thought and message["role"] == "assistant":
            message["reasoning_content"] = thought
        thought = None
        messages.append(message)
    return messages


# --- lists of messages, wherever they are -----------------------------------------------------------------


def _lists(value: Any, depth: int) -> Iterator[list[Message]]:
    """Every list of messages within a value."""
    value = _decoded(value)
    if (messages := _messages(value)) is not None:
        yield messages
    elif depth:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for part in inner:
            if isinstance(part, dict | list | str):
                yield from _lists(part, depth - 1)


def _decoded(value: Any) -> Any:
    """What a text of JSON says: columns of tables hold lists so."""
    if isinstance(value, str) and value.startswith(("[{", '{"')):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _messages(value: Any) -> list[Message] | None:
    value = _decoded(value)
    if not isinstance(value, list) or not value:
        return None
    messages = []
    for item in value:
        message = _message(item)
        if message is None:
            return None
        if not item.get("is_demo"):  # SWE-agent shows its policy other runs first
            messages.append(message)
    return messages or None


def _message(value: Any) -> Message | None:
    if not isinstance(value, dict):
        return None
    if "role" not in value and "from" in value and "value" in value:
        value = {"role": value["from"], "content": value["value"]}
    role, content = value.get("role"), value.get("content")
    if not isinstance(role, str) or not _SAYS & value.keys():
        return None
    fields = {name: value[name] for name in _FIELDS if value.get(name) is not None}
    function = value.get("function_call")
    if role in ("function_call", "tool_call"):  # of ShareGPT: a message of its own, with the call as JSON
        function, role, content = _decoded(content), "assistant", ""
        if not isinstance(function, dict):
            return None
    if isinstance(function, dict) and "tool_calls" not in fields:
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = {"name": function.get("name"), "arguments": text}
        fields["tool_calls"] = [{"type": "function", "function": call}]
    return {**fields, "role": _ROLES.get(role, role), "content": content or ""}


def _is_within(other: list[Message], longest: list[Message]) -> bool:
    """Whether messages are among those of the longest list, in one piece."""
    n = len(other)
    return any(longest[at : at + n] == other for at in range(len(longest) - n + 1) if longest[at] == other[0])
