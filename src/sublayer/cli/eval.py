"""`sublayer eval`: how well a trained model predicts a text, or answers the questions of a task."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.progress import Display


def evaluate(
    run: str,
    /,
    *,
    data: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    split: str | None = None,
    length: int | None = None,
    batch: int | None = None,
    stride: int | None = None,
    memory: int | None = None,
    lengths: str | None = None,
    positions: Annotated[bool, Parameter(negative="")] = False,
    ages: Annotated[bool, Parameter(negative="")] = False,
    limit: int | None = None,
    datastore: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    neighbours: int | None = None,
    share: Annotated[float | None, Parameter(name="--lambda")] = None,
    temperature: Annotated[float | None, Parameter(name=["--temperature", "--datastore-temperature"])] = None,
    tune: Annotated[bool, Parameter(negative="")] = False,
    step: int | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Score a trained model on a text it has not seen: every token after the first, once each. A model trained on a
    task is scored by the answers to its test questions, one trained on images by all their pixels.

    Examples: sublayer eval runs/book · sublayer eval runs/book --data other.txt --stride 32 · sublayer eval runs/book
    --lengths 128,256,512 · sublayer eval runs/xl --memory 640 · sublayer eval runs/walk --json ·
    sublayer eval runs/book --datastore stores/book --tune

    Parameters
    ----------
    run
        The folder of the run.
    data
        Another text: a file, a folder, a pattern, - for standard input, task:NAME or image:PATH. All of it is scored,
        or the test file of a folder with train, valid and test files, or the test of a task. Images are brought to the
        size, channels and levels that the model was trained on.
    split
        Split of the text: train, valid or test; test if not given, or valid where test is empty.
    length
        Tokens in a segment; as many as in training if not given. A segment starts without context, or with the segment
        memory (Transformer-XL) of those before.
    batch
        Segments read at once; chosen for speed if not given. It changes the score only where a memory is carried: the
        text is then divided into so many rows, and each starts without memory.
    stride
        Distance between overlapping windows, of which only the last tokens are scored, so that each token has more
        context. A smaller stride is slower.
    memory
        Tokens in the segment memory, if not as many as in training; 0 for none. Of a compressive memory, as large a
        share of them is compressed as in training.
    lengths
        Several segment lengths, with commas: the score beyond the length of training.
    positions
        Print the loss by position in the segment instead: what the model gains from context.
    ages
        Print instead how much attention goes to keys by how far back they stand: what a memory is used for.
    limit
        Number of tokens to score, from the beginning; all if not given. Of a task or of images, whole ones within
        that number.
    datastore
        Datastores of this run (sublayer datastore build), one or several, in which each context is looked up. A token
        of a text that is in a store never finds itself.
    neighbours
        Number of neighbours of each context; 1,024 if not given.
    share
        The share of the neighbours in the prediction: 0 is the model alone, 1 the neighbours alone; 0.25 if not given.
    temperature
        Squared distances to neighbours are divided by it: the larger, the more alike they count. The root of the
        vectors' width if not given.
    tune
        Find the best lambda and temperature on the valid split, before the score.
    step
        The checkpoint to use; the last if not given.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON.
    """
    several = _read_lengths(lengths)
    import_torch()
    import sublayer
    from sublayer.cli import scoreboard
    from sublayer.cli.words import load_plugins, print_json

    load_plugins(plugin or [])
    with Display("scoring") as display:
        found = sublayer.evaluate(
            run,
            data,
            split=split,
            length=length,
            batch=batch,
            stride=stride,
            memory=memory,
            lengths=several,
            positions=positions,
            ages=ages,
            limit=limit,
            datastore=datastore or (),
            neighbours=neighbours,
            share=share,
            temperature=temperature,
            tune=tune,
            step=step,
            on_batch=display.update,
        )
    print_json(found.dump()) if json else scoreboard.print_page(found)


def _read_lengths(text: str | None) -> list[int]:
    if text is None:
        return []
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise ValueError(f"--lengths {text!r}: expected whole numbers with commas; write --lengths 128,256,512")
    return list(dict.fromkeys(int(word) for word in words))
