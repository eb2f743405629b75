"""What all pages and pictures of this house share: colours, the frame of a page, its tables, charts.

`style` has the sheets, `frame` a page with its landmarks, `chart` panels of lines and bars over `scale`,
`markup` what an SVG or a table is made of. Nobody else writes a style or a frame.
"""
