"""`sublayer generate`: a trained model goes on with a text."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch


def generate(
    run: str,
    /,
    *,
    prompt: Annotated[list[str] | None, Parameter(negative="")] = None,
    tokens: int = 200,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition: float | None = None,
    stop: Annotated[list[str] | None, Parameter(negative="")] = None,
    seed: int = 0,
    beam: int | None = None,
    length_penalty: float | None = None,
    no_repeat: int | None = None,
    step: int | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """A trained model goes on with a text.

    Examples: sublayer generate runs/book --prompt 'Once upon' · sublayer generate runs/book --prompt 'Once' --beam 4

    Parameters
    ----------
    run
        The folder of the run.
    prompt
        The text to go on with; several are written side by side. Without one it begins on a new line.
    tokens
        How many to write at most.
    temperature
        1 draws from the model's own probabilities, less prefers the likely; 0 takes the likeliest; 0.8 if not given.
    top_k
        Draw only from the k likeliest.
    top_p
        Draw only from the fewest tokens whose probabilities sum to p.
    min_p
        Draw only from tokens at least this share as probable as the likeliest.
    repetition
        Penalty on tokens that were there before; 1 for none.
    stop
        A text that ends the writing; may be given more than once.
    seed
        The same seed writes the same text.
    beam
        Search with so many beams instead of drawing.
    length_penalty
        Of beams: the larger, the longer the texts; 0 ranks by probability alone; 0.6 if not given.
    no_repeat
        Of beams: no run of so many tokens comes twice.
    step
        The checkpoint to use; the last if not given.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON for other programs, when all is written.
    """
    import_torch()
    import sys

    import sublayer
    from sublayer.cli.words import load_plugins
    from sublayer.generation import Beam

    load_plugins(plugin or [])
    drawing = _given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition=repetition)
    searching = _given(length_penalty=length_penalty, no_repeat=no_repeat)
    if beam is None and searching:
        raise ValueError(f"{_flags(searching)}: only a search with beams minds it; add --beam 4")
    if beam is not None and drawing:
        raise ValueError(f"{_flags(drawing)}: a search with beams draws nothing; leave it out, or --beam {beam}")
    if beam is not None and beam < 1:
        raise ValueError(f"--beam {beam}: expected at least 1; leave it out to draw")
    if no_repeat is not None and no_repeat < 0:
        raise ValueError(f"--no-repeat {no_repeat}: expected 0 or more")
    trained = sublayer.load(run, step=step)
    prompts, common = prompt or [""], {"tokens": tokens, "stop": stop or []}
    if beam is None and len(prompts) == 1 and not json:
        pieces = trained.stream(prompts[0], seed=seed, **common, **drawing)
        sys.stdout.write(prompts[0])
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        print()
        return
    penalty = {} if length_penalty is None else {"alpha": length_penalty}
    search = None if beam is None else Beam(width=beam, ngram=no_repeat or 0, **penalty)
    _print_all(prompts, trained.generate(prompts, seed=seed, beam=search, **common, **drawing), json)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _flags(options: dict[str, Any]) -> str:
    """As they were typed."""
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())


def _print_all(prompts: list[str], texts: list[str], as_json: bool) -> None:
    import json

    if as_json:
        print(json.dumps([{"prompt": p, "text": text} for p, text in zip(prompts, texts, strict=True)], indent=2))
        return
    print("\n\n".join(p + text for p, text in zip(prompts, texts, strict=True)))
