"""text8: words of a–z and single spaces, as the original program makes them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.source import File, FolderSource
from sublayer.data.source.text8 import text8

PAGES = b"""<mediawiki>
  <page>
    <title>AaA</title>
      <text xml:space="preserve">#REDIRECT [[AAA]]</text>
  </page>
  <page>
    <title>Anarchism</title>
      <text xml:space="preserve">{{Anarchism}}
'''Anarchism''' originated as a [[term of abuse|term]] in 1840, &lt;ref&gt;see [http://x.org a page]&lt;/ref&gt; of
[[Image:Flag.png|thumb|left|200px|A ''flag'']] the &amp;quot;state&amp;quot;.
[[de:Anarchismus]] [[Category:Politics| ]]</text>
  </page>
  <page>
    <title>Next</title>
      <text xml:space="preserve">[http://x.org Links] stay &amp;mdash; na\xc3\xafve.</text>
  </page>
</mediawiki>
"""


@given(st.binary())
def test_nothing_but_words_and_single_spaces_comes_out(text):
    out = text8(text)
    assert re.fullmatch(rb"(?: [a-z]+)*", out)
    assert text8(out) == out


def test_the_markup_of_wikipedia_is_read_as_a_browser_shows_it():
    assert text8(PAGES) == (
        b" anarchism originated as a term in one eight four zero of a flag the state politics links stay na ve"
    )


def test_a_plain_text_is_lowered_and_its_digits_spelled():
    assert text8("The 2 cats – 10 €!".encode()) == b" the two cats one zero"


def test_as_an_option_of_a_source_it_joins_documents_by_spaces(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"Line one.\n")
    (tmp_path / "b.txt").write_bytes(b"Line 2")
    pieces = FolderSource.Config(path=str(tmp_path), text8=True).build().joined()
    assert b"".join(piece.data for piece in pieces) == b" line one line two"
    assert not File.Config(path="x").text8
