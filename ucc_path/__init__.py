"""ucc-path: whole slides segmented from a label that costs a second.

The map, in the order in which values flow; each room imports only from rooms above it.

    errors      what the user can repair
    geometry    coordinate planes and the conversions between them
    settings    every tunable number
    seeding     one seed, one stream of chance per purpose
    ahead       work done ahead in threads, its results in order
    slide       a file becomes pixels at a physical scale
    annotation  outlines or a mask image become the tumour mask and tumour share of any region
    coverage    how much of any place on a slide a mask covers
    tissue      a thumbnail becomes a tissue mask
    stain       how strongly a slide is stained, made alike or changed at random
    tiles       slide, annotation and tissue become labelled tiles; splits that never share a slide
    bags        tiles become bags of patches, each with its label
    model       the networks, and how they learn
    features    patches and weights become features, a whole slide as a stream
    clusters    features become clusters, and clusters classes with names
    mask        values on the grid become labels, how sure they are, windows, and polygons
    evaluation  a mask against the truth: counts, scores, intervals, lesions
    report      pictures and pages, as arrays and strings
    formats     every file read or written, one module per format
    engine      where slides are worked on: processes of this machine, or of a Ray cluster
    synthetic   slides with known truth, for the demo and the tests
    workflows   one per command: paths in, paths out
"""

import logging

__version__ = "0.1.0"

# What tifffile remarks about a damaged file is said in our own words; without a handler it would go to the terminal.
logging.getLogger("tifffile").addHandler(logging.NullHandler())
