"""Reports: what folders of runs, searches and comparisons have to say, as one page that needs nothing else.

    from sublayer import reports
    reports.report(["search", "runs"], "report.html")
    reports.figures("search")["front-decoder-params-latency"]     # a chart of Altair's, for a notebook

Nothing here trains or measures: what a page says, a file in a folder said before it.
"""

from sublayer.reports.report import Report, figures, report

__all__ = ["Report", "figures", "report"]
