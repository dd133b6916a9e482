"""`sublayer datastore`: contexts of a text with the token after each, for a model to look up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.cli.stopping import same_command, when_stopped
from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.retrieval import Store


def build(
    run: str,
    /,
    *,
    out: str,
    data: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    split: str | None = None,
    key: Literal["feedforward", "final"] | None = None,
    dtype: Literal["float16", "float32"] = "float16",
    index: str | None = None,
    length: int | None = None,
    stride: int | None = None,
    memory: int | None = None,
    limit: int | None = None,
    step: int | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Build a datastore from any text: for each token the vector of its context in a trained model. eval and generate
    look it up by --datastore (kNN-LM).

    Examples: sublayer datastore build runs/book --out stores/book · sublayer datastore build runs/book --data other.txt
    --out stores/other --index exact

    The same command continues a build that was stopped, to the same bits. With another --index it gives that index to a
    finished store.

    Parameters
    ----------
    run
        The folder of the run.
    out
        The folder of the datastore. It takes two bytes for each number of a vector: 0.5 GB for a million tokens at
        width 256.
    data
        Another text: a file, a folder, a pattern, - for standard input; the text of the run if not given.
    split
        Split of the text: train, valid or test. Of the run's text train if not given, of another text all of it.
    key
        The vector: feedforward is the input of the last feed-forward after its norm, as in the paper, final the last
        hidden state. The paper's if not given, where the model has it.
    dtype
        Type in which vectors are stored.
    index
        ivf: clusters, fast, finds most neighbours. exact: compares all. hnsw: a graph, fastest, takes most memory. ivf
        and hnsw need the extra knn; if not given, ivf where that is installed, else exact. '{"kind": "ivf", "probes":
        32}' sets more.
    length
        Tokens in a segment; as many as in training if not given.
    stride
        Distance between overlapping windows, of which only the last tokens are used, so that each has more context.
    memory
        Tokens in the segment memory, if not as many as in training; 0 for none.
    limit
        Number of tokens, from the beginning; all if not given.
    step
        The checkpoint to use; the last if not given.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON.
    """
    with when_stopped(lambda: f"stopped. {same_command()}"), Display("starting") as display:
        import_torch()
        import sublayer
        from sublayer.cli.words import load_plugins, read_value

        load_plugins(plugin or [])
        how = {"length": length, "stride": stride, "memory": memory, "limit": limit, "key": key, "dtype": dtype}
        made = sublayer.datastore(
            run, data, out, split=split, step=step, index=index and read_value(index), on_phase=display.reach, **how
        )
    _print(made, json)


def show(store: str, /, *, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """A datastore: what it was built from, its size, its index and what that misses. Every file is checked.

    Parameters
    ----------
    store
        The folder of the datastore.
    json
        Print JSON.
    """
    with Display("checking"):
        import_torch()
        from sublayer.retrieval import Store

        found = Store.open(store)
    _print(found, json)


def _print(store: Store, as_json: bool) -> None:
    from sublayer.cli.words import figures_table, print_json
    from sublayer.runs.wording import command

    if as_json:
        print_json({"store": str(store.path), **store.facts.dump(), "index": store.index_facts.dump()})
        return
    from rich.console import Console

    facts, table = store.facts, figures_table((store.path.name, ""))
    text = f"{facts.split} of {facts.title}" if facts.split != "all" else facts.title
    table.add_row("text", f"{text}, {facts.entries:,} tokens after the first")
    table.add_row("model", f"{facts.run}, step {facts.step:,}")
    table.add_row("key", f"{facts.key}, {facts.dim} numbers in {facts.dtype}")
    table.add_row("index", index_words(store))
    table.add_row("size", f"{sum(file.stat().st_size for file in store.path.glob('*.bin')) / 1e6:,.1f} MB")
    console = Console(highlight=False)
    console.print(table)
    console.print(command("eval", facts.run, "--datastore", store.path, "--tune"), markup=False, soft_wrap=True)


def index_words(store: Store) -> str:
    """`ivf, finds 0.970 of the nearest 16, 0.912 of 1,024`."""
    recall = "; ".join(f"{share:.3f} of the nearest {count:,}" for count, share in (store.recall or {}).items())
    kind = store.index_facts.config["kind"]
    return f"{kind}, finds {recall}" if recall else kind
