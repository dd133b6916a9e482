"""`sublayer generate`: a trained model continues a text, or completes images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.retrieval.explain import Explained


def generate(
    run: str,
    /,
    *,
    prompt: Annotated[list[str] | None, Parameter(negative="")] = None,
    tokens: int | None = None,
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
    datastore: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    neighbours: int | None = None,
    share: Annotated[float | None, Parameter(name="--lambda")] = None,
    datastore_temperature: float | None = None,
    explain: Annotated[bool, Parameter(negative="")] = False,
    image: str | None = None,
    prompt_image: Annotated[list[str] | None, Parameter(negative="")] = None,
    images: int | None = None,
    rows: int | None = None,
    step: int | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Continue a text with a trained model, or complete images with one that was trained on images.

    Examples: sublayer generate runs/book --prompt 'Once upon' · sublayer generate runs/book --prompt 'Once' --beam 4 ·
    sublayer generate runs/shapes --image out.png · sublayer generate runs/shapes --image out.png --prompt-image in.png
    · sublayer generate runs/book --prompt 'Once' --datastore stores/book --explain

    Parameters
    ----------
    run
        The folder of the run.
    prompt
        The text to continue; may be given more than once. Without one, generation starts on a new line.
    tokens
        Largest number of tokens to generate; 200 if not given.
    temperature
        1 samples from the model's probabilities, lower values prefer likely tokens, 0 takes the likeliest; 0.8 if not
        given, 1 for images.
    top_k
        Sample only from the k likeliest tokens.
    top_p
        Sample only from the fewest tokens whose probabilities sum to p.
    min_p
        Sample only from tokens with at least this share of the probability of the likeliest.
    repetition
        Penalty on tokens that occurred before; 1 for none.
    stop
        A text that ends generation; may be given more than once.
    seed
        Seed of sampling: the same seed gives the same text.
    beam
        Number of beams: beam search instead of sampling.
    length_penalty
        For beam search: larger values prefer longer texts; 0 ranks by probability alone; 0.6 if not given.
    no_repeat
        For beam search: no sequence of so many tokens occurs twice.
    datastore
        Datastores of this run (sublayer datastore build), one or several, in which each context is looked up.
    neighbours
        Number of neighbours of each context; 1,024 if not given.
    share
        The share of the neighbours in the prediction, from 0 to 1; 0.25 if not given.
    datastore_temperature
        Squared distances to neighbours are divided by it; the root of the vectors' width if not given. sublayer eval
        --tune finds lambda and this.
    explain
        Print for each token what the model and what the neighbours gave it, and which neighbours spoke for it.
    image
        The PNG file to write, for a model trained on images: it completes the top halves of images of its test split,
        side by side, below the images as they are. An orange line stands beside the rows that are given.
    prompt_image
        An image to complete instead; may be given more than once. Its size is that of the model's images, or it has
        only their first rows.
    images
        Number of images of the test split to complete; 8 if not given.
    rows
        Number of rows that are given; half of a whole image if not given. 0 leaves all of it to the model.
    step
        The checkpoint to use; the last if not given.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON at the end.
    """
    import_torch()
    import sys

    import sublayer
    from sublayer.cli.words import load_plugins
    from sublayer.generation import Beam

    load_plugins(plugin or [])
    sampling = _given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition=repetition)
    beams = _given(length_penalty=length_penalty, no_repeat=no_repeat)
    if beam is None and beams:
        raise ValueError(f"{_flags(beams)}: only beam search uses it; add --beam 4")
    if beam is not None and sampling:
        raise ValueError(f"{_flags(sampling)}: beam search does not sample; leave it out, or --beam {beam}")
    if beam is not None and beam < 1:
        raise ValueError(f"--beam {beam}: expected at least 1; leave it out to sample")
    if no_repeat is not None and no_repeat < 0:
        raise ValueError(f"--no-repeat {no_repeat}: expected 0 or more")
    drawing = _given(prompt_image=prompt_image, images=images, rows=rows)
    looking = _given(neighbours=neighbours, share=share, datastore_temperature=datastore_temperature)
    if not datastore and (looking or explain):
        raise ValueError(f"{_flags(looking) or '--explain'}: is about datastores; add --datastore STORE")
    writing = _given(prompt=prompt, tokens=tokens, stop=stop, beam=beam, json=json or None, datastore=datastore)
    if image is None and drawing:
        raise ValueError(f"{_flags(drawing)}: only images have it; add --image out.png")
    if image is not None and writing:
        raise ValueError(f"{_flags(writing)}: is for texts; leave it out beside --image {image}")
    trained = sublayer.load(run, step=step)
    if image is not None:
        from sublayer.cli.pictures import write_images

        write_images(trained, image, prompt_image or [], images, rows, seed, sampling)
        return
    tokens = 200 if tokens is None else tokens
    mixture = None
    if datastore:
        with Display("opening the datastores"):
            how = {"neighbours": neighbours, "share": share, "temperature": datastore_temperature}
            mixture = trained.mixture(datastore, **how)
    prompts, common = prompt or [""], {"tokens": tokens, "stop": stop or [], "mixture": mixture}
    if beam is None and len(prompts) == 1 and not json and not explain:
        pieces = trained.stream(prompts[0], seed=seed, **common, **sampling)
        sys.stdout.write(prompts[0])
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        print()
        return
    penalty = {} if length_penalty is None else {"alpha": length_penalty}
    search = None if beam is None else Beam(width=beam, ngram=no_repeat or 0, **penalty)
    with Display("generating", tokens) as display:
        written = trained.write(prompts, seed=seed, beam=search, on_step=display.update, **common, **sampling)
    texts = [trained.tokenizer.decode(ids) for ids in written]
    explained = []
    if explain and mixture is not None:
        explained = [trained.explain(one, ids, mixture) for one, ids in zip(prompts, written, strict=True)]
    _print_all(prompts, texts, json, explained)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _flags(options: dict[str, Any]) -> str:
    """As typed."""
    names = {name: "lambda" if name == "share" else name.replace("_", "-") for name in options}
    return " ".join(f"--{names[name]} {value}" for name, value in options.items())


def _print_all(prompts: list[str], texts: list[str], as_json: bool, explained: list[list[Explained]]) -> None:
    import json

    if as_json:
        found: list[dict[str, Any]] = [{"prompt": p, "text": text} for p, text in zip(prompts, texts, strict=True)]
        for one, tokens in zip(found, explained, strict=False):
            one["tokens"] = [token.dump() for token in tokens]
        print(json.dumps(found, indent=2))
        return
    print("\n\n".join(p + text for p, text in zip(prompts, texts, strict=True)))
    for tokens in explained:
        _print_explained(tokens)


def _print_explained(tokens: list[Explained]) -> None:
    """A row for each token, and one more for each further neighbour that spoke for it."""
    from rich.console import Console
    from rich.text import Text

    from sublayer.cli.words import figures_table

    table = figures_table(("token",), ("model", "neighbours", "mixed", "weight"), ("context that it came after",))
    for one in tokens:
        figures = (f"{share:.3f}" for share in (one.model, one.neighbours, one.mixed))
        rows = [(f"{voice.weight:.3f}", voice.context) for voice in one.voices] or [("", "")]
        for n, (weight, context) in enumerate(rows):
            cells = (Text(_visible(one.token)), *figures) if n == 0 else ("", "", "", "")
            table.add_row(*cells, weight, Text(_visible(context)))
    print()
    Console(highlight=False).print(table)


def _visible(text: str) -> str:
    """On one line."""
    return text.replace("\n", "⏎").replace("\t", "⇥")
