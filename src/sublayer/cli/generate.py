"""`sublayer generate`: a trained model goes on with a text."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sublayer.cli.start import import_torch


def generate(
    run: str,
    /,
    *,
    prompt: Annotated[list[str] | None, Parameter(negative="")] = None,
    tokens: int = 200,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition: float = 1.0,
    stop: Annotated[list[str] | None, Parameter(negative="")] = None,
    seed: int = 0,
    beam: int | None = None,
    length_penalty: float = 0.6,
    no_repeat: int = 0,
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
        1 draws from the model's own probabilities, less prefers the likely; 0 takes the likeliest.
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
        Of beams: the larger, the longer the texts; 0 ranks by probability alone.
    no_repeat
        Of beams: no run of so many tokens comes twice; 0 allows it.
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
    if no_repeat and beam is None:
        raise ValueError(f"no_repeat={no_repeat}: only a search with beams minds it; add --beam 4, or use --repetition")
    trained = sublayer.load(run, step=step)
    prompts = prompt or [""]
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition": repetition}
    how |= {"tokens": tokens, "seed": seed, "stop": stop or []}
    if beam is None and len(prompts) == 1 and not json:
        pieces = trained.stream(prompts[0], **how)
        sys.stdout.write(prompts[0])
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        print()
        return
    search = None if beam is None else Beam(width=beam, alpha=length_penalty, ngram=no_repeat)
    texts = trained.generate(prompts, beam=search, **how)
    _print_all(prompts, texts, json)


def _print_all(prompts: list[str], texts: list[str], as_json: bool) -> None:
    import json

    if as_json:
        print(json.dumps([{"prompt": p, "text": text} for p, text in zip(prompts, texts, strict=True)], indent=2))
        return
    print("\n\n".join(p + text for p, text in zip(prompts, texts, strict=True)))
