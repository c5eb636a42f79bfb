"""Render conversations with a Jinja chat template, and find the parts that the model writes.

The template is that of the tokenizer (`chat_template.jinja` or `tokenizer_config.json`, as Hugging
Face's transformers read them), rendered in a sandbox.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.document.read import parse_json, read_text
from gpuyard.errors import ExternalError, InputError

TEMPLATE_FILE = "chat_template.jinja"
CONFIG_FILE = "tokenizer_config.json"
# Without a template: the prompt and the response, one after the other.
PLAIN = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
Message = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """A template and the special tokens that it may name."""

    text: str = PLAIN
    bos_token: str = ""
    eos_token: str = ""

    def render(self, messages: Sequence[Message], *, reply: bool = False) -> str:
        """Return the conversation as text; with `reply`, up to where the assistant writes."""
        import jinja2

        try:
            text = _compiled(self.text).render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=reply,
                bos_token=self.bos_token,
                eos_token=self.eos_token,
            )
        except (jinja2.TemplateError, ArithmeticError, TypeError, ValueError) as error:
            fix = "use messages as the template takes them"
            raise InputError.one("chat template", f"cannot be rendered: {error}", fix) from None
        return str(text)

    def spans(self, messages: Sequence[Message]) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return the whole text, and where the assistant's messages begin and end in it.

        Each begins where the conversation before it, with the generation prompt, ends. So the
        template must not change earlier messages when a later one is added.
        """
        whole = self.render(messages)
        spans = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self.render(messages[:number], reply=True)
            until = self.render(messages[: number + 1])
            if not whole.startswith(before) or not whole.startswith(until):
                what = "changes earlier messages when a later one is added"
                fix = "use a template that only appends"
                raise InputError.one("chat template", what, fix)
            spans.append((len(before), len(until)))
        return whole, tuple(spans)


@functools.lru_cache(maxsize=4)
def _compiled(text: str) -> Any:
    try:
        import jinja2
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError as error:
        raise ExternalError(
            "chat template", "the package jinja2 is not installed", "pip install 'gpuyard[torch]'"
        ) from error

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    # As transformers renders: its options, and the two functions that templates call.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = datetime.datetime.now().strftime
    environment.filters["tojson"] = lambda value, **options: json.dumps(
        value, ensure_ascii=False, **options
    )
    try:
        return environment.from_string(text)
    except jinja2.TemplateError as error:
        what = f"is not a Jinja template: {error}"
        raise InputError.one("chat template", what, "check the template") from None


def read_template(tokenizer: Path) -> ChatTemplate:
    """Return the chat template in the folder of a tokenizer; PLAIN if it has none."""
    folder = tokenizer if tokenizer.is_dir() else tokenizer.parent
    file = folder / CONFIG_FILE
    tree = parse_json(read_text(file), str(file)) if file.is_file() else {}
    config = tree if isinstance(tree, dict) else {}
    text = config.get("chat_template")
    if (folder / TEMPLATE_FILE).is_file():
        text = read_text(folder / TEMPLATE_FILE)
    if isinstance(text, list):  # several named templates
        named = {item.get("name"): item.get("template") for item in text if isinstance(item, dict)}
        text = named.get("default")
    return ChatTemplate(
        text=text if isinstance(text, str) else PLAIN,
        bos_token=_token(config.get("bos_token")),
        eos_token=_token(config.get("eos_token")),
    )


def _token(value: object) -> str:
    if isinstance(value, dict):  # an AddedToken
        value = value.get("content")
    return value if isinstance(value, str) else ""
