"""Reports: folders of runs, searches and comparisons as one HTML page that needs no other file.

    from sublayer import reports
    reports.report(["search", "runs"], "report.html")
    reports.figures("search")["front-decoder-params-latency"]     # an Altair chart, for a notebook

Nothing here trains or measures: a page shows only what files in the folders hold.
"""

from sublayer.reports.report import Report, figures, report

__all__ = ["Report", "figures", "report"]
