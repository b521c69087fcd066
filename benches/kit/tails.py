"""The tails of several loads as one: a single stall fills the slowest hundredth of a percent of a short load, and none of a long one's."""


def p9999_us(loads, kind="lat_us"):
    """The latency that one query of 10,000 exceeds, of all these loads' together; `counts` are blast's: [us, how many so]."""
    counts = sorted(c for load in loads for c in load[kind]["counts"])
    above = sum(n for _, n in counts) // 10_000
    while above >= counts[-1][1]:
        above -= counts.pop()[1]
    return counts[-1][0]
