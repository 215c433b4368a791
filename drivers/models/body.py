"""What is posted: a request in the words of the OpenAI chat protocol, in the form a model is configured for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.contracts.model import Message, ModelRequest
from drivers.models.settings import ModelSettings
from drivers.models.tokens import schema_text

_FORM = "Answer with one JSON object and nothing else. It follows this JSON Schema: "


def body_of(settings: ModelSettings, request: ModelRequest, most_tokens: int, *, other_words: bool = False) -> dict[str, Any]:
    """Return the JSON to post. ``other_words``: as newer models of OpenAI want it."""
    body: dict[str, Any] = {"model": settings.model} if settings.model else {}
    messages = request.messages
    if request.schema is not None:
        match settings.output:
            case "schema":
                form = {"name": request.schema_name, "strict": True, "schema": request.schema}
                body["response_format"] = {"type": "json_schema", "json_schema": form}
            case "tools":
                function = {"name": request.schema_name, "parameters": request.schema}
                body["tools"] = [{"type": "function", "function": function}]
                body["tool_choice"] = {"type": "function", "function": {"name": request.schema_name}}
            case "text":
                messages = _told(messages, request.schema)
    body["messages"] = [{"role": each.role, "content": each.content} for each in messages]
    if other_words:
        body["max_completion_tokens"] = most_tokens
    else:
        body |= {"max_tokens": most_tokens, "temperature": 0}  # the same question has the same plan
    return body | {"stream": True, "stream_options": {"include_usage": True}}


def _told(messages: tuple[Message, ...], schema: Mapping[str, Any]) -> tuple[Message, ...]:
    """Ask for the form in the first message, which a template may take no second system message beside."""
    form = _FORM + schema_text(schema)
    if messages and messages[0].role == "system":
        return (Message("system", f"{messages[0].content}\n\n{form}"), *messages[1:])
    return (Message("system", form), *messages)
