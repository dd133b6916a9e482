"""Nothing that a file says can become part of the page's own markup."""

import html
import json
import re

from hypothesis import given
from hypothesis import strategies as st

from sublayer.reports.markup import Markup, data, tag

words = st.text() | st.sampled_from(
    ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "]]>", "&lt;"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner) | st.dictionaries(words, inner),
    max_leaves=8,
)


@given(words, words)
def test_text_stays_text(said, value):
    made = tag("p", said, title=value)
    inside = re.fullmatch(r'<p title="([^"<>]*)">([^<>]*)</p>', made, re.DOTALL)
    assert inside
    assert (html.unescape(inside[1]), html.unescape(inside[2])) == (
        html.unescape(html.escape(value)),
        said,
    ) or "\r" in said


@given(values)
def test_json_cannot_end_its_element(value):
    made = data("one", value)
    inside = made.removeprefix('<script type="application/json" id="one">').removesuffix("</script>")
    assert not set(inside) & set("<>&\u2028\u2029")
    assert json.loads(inside) == json.loads(json.dumps(_plain(value)))


def test_markup_is_not_escaped_twice():
    assert tag("td", tag("b", "<"), Markup("&amp;")) == "<td><b>&lt;</b>&amp;</td>"


def _plain(value):
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value
