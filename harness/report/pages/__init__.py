"""Parts that all pages and pictures share: colours, the frame of a page, its tables, charts.

`frame` has the page with its landmarks, sections and tables; `chart` draws panels of lines and of bars, with
their axes; `markup` has what both stand on: escaped text, an SVG with its title and description, and the
style sheets beside it (`page.css`, `chart.css`, `sequence.css`). Nobody else writes a style or a frame.

Colours are variables of `palette.css` in the fake server's live page: a page here and that one look alike, in
light and dark.
"""
