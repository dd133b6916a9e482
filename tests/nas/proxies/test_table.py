"""Tables of trained models: what is read of them, what is refused, and what a ranking of them says."""

import pytest

from sublayer.nas.proxies import judging, table
from sublayer.nas.proxies.records import ProxyRanking

HEAD = "set,name,backbone,n_layer,d_model,n_head,d_inner,tgt_len,mem_len,decoder_params,total_params,ppl,latency_ms\n"
ROWS = """a,m1,gpt2,1,32,2,64,16,0,100,900,50,1
a,m2,gpt2,2,32,2 4,64 96,16,0,200,800,40,2
a,m3,gpt2,3,32,2 2 2,64 64 64,16,0,300,700,30,3
a,m4,gpt2,4,32,2 2 2 2,64 64 64 64,16,0,400,950,,4
b,n1,gpt2,1,32,2,64,16,0,3,1,10,
b,n2,gpt2,1,32,2,96,16,0,2,2,20,
b,n3,gpt2,1,32,2,128,16,0,1,3,30,
c,o1,gpt2,1,32,2,128,16,0,1,3,30,
"""


@pytest.fixture
def made(tmp_path):
    def made(text):
        path = tmp_path / "models.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return made


def test_sets_are_ranked_by_themselves(made):
    ranking = judging.judge(table.read(made(HEAD + ROWS)), "models.csv")
    assert ProxyRanking.model_validate(ranking.dump()) == ranking  # what is written is what is read
    a, b = ranking.sets
    assert (a.set, a.models, a.dropped, b.set, b.models, b.dropped) == ("a", 3, 1, "b", 3, 0)
    assert [one.dump() for one in ranking.skipped] == [{"set": "c", "models": 1}]
    figures = {proxy.name: proxy for proxy in a.proxies}
    assert list(figures) == ["decoder_params", "flops", "total_params"]
    assert figures["decoder_params"].spearman == pytest.approx(1)
    assert figures["total_params"].spearman == pytest.approx(-1)
    assert figures["flops"].spearman == pytest.approx(1)
    assert figures["decoder_params"].front_distance == 0
    assert a.points.latency == [0.001, 0.002, 0.003]
    assert a.points.scores["total_params"] == [900, 800, 700]
    assert (b.points.latency, b.proxies[0].front_distance) == (None, None)


def test_flops_are_counted_where_the_backbone_is_known(made):
    import sublayer

    (models,) = table.read(made(HEAD + "a,m2,gpt2,2,32,2 4,64 96,16,0,200,800,40,2\n"))
    config = sublayer.config("gpt2", {"s.heads": [2, 4], "f.inner": [64, 96]}, dim=32, layout="(sf)x2")
    assert models.scores["flops"] == [config.cost(16, 0).flops.total]
    strange = HEAD + "a,m2,lstm,2,32,2 4,64 96,16,0,200,800,40,2\n"
    assert list(table.read(made(strange))[0].scores) == ["decoder_params", "total_params"]


def test_what_is_written_reads_back(tmp_path):
    rows = [{"name": "m", "snip": 0.1 + 0.2, "ppl": 1e-3, "other": 5}, {"name": "n,o", "snip": None, "ppl": 7}]
    table.write(tmp_path / "t.csv", ["name", "snip", "ppl"], rows)
    (models,) = table.read(tmp_path / "t.csv")
    assert models.names == ["m", "n,o"]
    assert models.scores == {"snip": [0.1 + 0.2, None]}
    assert models.perplexity == [1e-3, 7]


def test_a_proxy_that_only_some_models_have(made):
    text = "ppl,snip,grasp\n10,3,\n20,2,\n30,1,5\n40,,6\n"
    found = judging.judge(table.read(made(text)), "t")
    ((ranked,), ()) = found.sets, found.skipped
    snip, grasp = ranked.proxies
    assert (snip.name, snip.models, snip.spearman) == ("snip", 3, pytest.approx(1))
    assert (grasp.name, grasp.models, grasp.spearman, grasp.common) == ("grasp", 2, None, None)


def test_lower_is_better_where_the_proxy_says_so(made):
    (models,) = judging.judge(table.read(made("ppl,short_training\n10,1\n20,2\n30,3\n")), "t").sets
    assert models.proxies[0].spearman == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column ppl, the true perplexity of each model; the columns are none"),
        ("word " * 1000, "word word …"),
        ("a,b\n1,2\n", "no column ppl, the true perplexity of each model; the columns are a, b"),
        ("ppl,snip\n", "a header and no rows"),
        ("ppl,snip\n1,2\n2,many\n", "line 3, column snip: expected a number, got 'many'"),
        ("ppl,snip\n1,2\nnan,2\n", "line 3, column ppl: expected a number, got 'nan'"),
        ("ppl,snip\n1,2\n-3,2\n", "line 3, column ppl: expected more than 0, got -3"),
        ("ppl,snip\n1,2,3\n", "line 2: not as many cells as the 2 columns"),
        ("ppl,snip\n1\n", "line 2: not as many cells as the 2 columns"),
        ("ppl,colour\n1,2\n", "no column to rank by; name one as a proxy (decoder_params, "),
        ("ppl,snip\n1,2\n2,3\n,4\n", "2 models with a perplexity, at least 3 are needed to rank them"),
        ('ppl,snip\n1,"2\n', "not CSV: unexpected end of data"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(made, text, said):
    path = made(text)
    with pytest.raises(ValueError) as error:  # noqa: PT011 (its words follow)
        judging.judge(table.read(path), str(path))
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="there is no such file; give a table as CSV"):
        table.read(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="cannot be read"):
        table.read(tmp_path)
    (tmp_path / "bytes.csv").write_bytes(b"ppl,snip\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match="cannot be read"):
        table.read(tmp_path / "bytes.csv")
