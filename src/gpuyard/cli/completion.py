"""`gpuyard completion SHELL`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuyard.cli.commands import COMMANDS, load_command
from gpuyard.cli.options import add_json, add_option
from gpuyard.report.terminal import print_json, print_text

SHELLS = ("bash", "zsh", "fish")
INSTALL = """examples:
  gpuyard completion bash > ~/.local/share/bash-completion/completions/gpuyard
  gpuyard completion zsh > "${fpath[1]}/_gpuyard"
  gpuyard completion fish > ~/.config/fish/completions/gpuyard.fish"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWords:
    """What may follow a command line's first words: subcommands and flags."""

    words: tuple[str, ...]
    flags: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = INSTALL
    add_option(parser, "shell", "bash, zsh or fish", choices=SHELLS)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    table = completions()
    if arguments.json:
        print_json({"completions": {prefix: words.words for prefix, words in table.items()}})
        return 0
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    print_text(make(table))
    return 0


def completions() -> dict[str, CommandWords]:
    """Return what may follow `gpuyard`, `gpuyard COMMAND` and `gpuyard COMMAND ACTION`."""
    table = {"": CommandWords(words=(*COMMANDS, "help"), flags=("--help", "--version"))}
    for name, summary in COMMANDS.items():
        _, parser = load_command(name, summary)
        table.update(_of(name, parser))
    return table


def _of(prefix: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, CommandWords]]:
    """Yield the words of a parser and of its subparsers."""
    words: tuple[str, ...] = ()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words = tuple(action.choices)
            for word, inner in action.choices.items():
                yield from _of(f"{prefix} {word}", inner)
        elif not action.option_strings and action.choices:
            words = tuple(map(str, action.choices))
    flags = [flag for action in parser._actions for flag in action.option_strings]
    yield prefix, CommandWords(words=words, flags=tuple(flag for flag in flags if len(flag) > 2))


def _cases(table: Mapping[str, CommandWords]) -> str:
    return "\n".join(
        f'    "{prefix}") words="{" ".join((*item.words, *item.flags))}" ;;'
        for prefix, item in table.items()
    )


def _bash(table: Mapping[str, CommandWords]) -> str:
    return f"""# bash completion of gpuyard: gpuyard completion bash
_gpuyard() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" prefix="" words=""
  [ "$COMP_CWORD" -gt 1 ] && prefix="${{COMP_WORDS[1]}}"
  case "$COMP_CWORD:${{COMP_WORDS[2]}}" in
    [12]:* | *:-*) ;;
    *) prefix="$prefix ${{COMP_WORDS[2]}}" ;;
  esac
  _gpuyard_words "$prefix"
  [ -n "$words" ] || _gpuyard_words "${{COMP_WORDS[1]}}"
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
_gpuyard_words() {{
  case "$1" in
{_cases(table)}
    *) words="" ;;
  esac
}}
complete -o default -o bashdefault -F _gpuyard gpuyard"""


def _zsh(table: Mapping[str, CommandWords]) -> str:
    return f"""#compdef gpuyard
# zsh completion of gpuyard: gpuyard completion zsh
_gpuyard_list() {{
  case "$1" in
{_cases(table)}
    *) words="" ;;
  esac
  REPLY="$words"
}}
_gpuyard_complete() {{
  local first="${{words[2]}}" second="${{words[3]}}" place=$CURRENT list
  if (( place <= 2 )); then first="" second=""; elif (( place == 3 )); then second=""; fi
  list="$(local words; _gpuyard_list "$first${{second:+ $second}}"; print -r -- "$REPLY")"
  [[ -n "$list" ]] || list="$(local words; _gpuyard_list "$first"; print -r -- "$REPLY")"
  compadd -- ${{=list}}
  _files
}}
compdef _gpuyard_complete gpuyard"""


def _fish(table: Mapping[str, CommandWords]) -> str:
    lines = ["# fish completion of gpuyard: gpuyard completion fish"]
    for prefix, item in table.items():
        name, _, action = prefix.partition(" ")
        condition = "__fish_use_subcommand" if not name else f"__fish_seen_subcommand_from {name}"
        if action:
            condition += f"; and __fish_seen_subcommand_from {action}"
        for word in item.words:
            summary = COMMANDS.get(word, "") if not name else ""
            shown = f" -d '{summary}'" if summary and "'" not in summary else ""
            lines.append(f"complete -c gpuyard -n '{condition}' -a '{word}'{shown}")
        for flag in item.flags:
            lines.append(f"complete -c gpuyard -n '{condition}' -l '{flag.lstrip('-')}'")
    return "\n".join(lines)
