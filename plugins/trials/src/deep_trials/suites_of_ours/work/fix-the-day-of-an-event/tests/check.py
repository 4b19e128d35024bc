"""Days around midnight, the ends of months and of years."""

from deep_trials.checking import Trial, call

CASES = [
    (["2026-03-01T23:30:00Z", "2026-03-01T10:00:00Z"], 60, {"2026-03-01": 1, "2026-03-02": 1}),
    (["2026-03-01T00:30:00Z"], -60, {"2026-02-28": 1}),
    (["2028-03-01T00:30:00Z"], -31, {"2028-02-29": 1}),
    (["2026-12-31T23:59:59Z"], 1, {"2027-01-01": 1}),
    (["2026-03-01T23:30:00+02:00", "2026-03-01T23:30:00-02:00"], 0, {"2026-03-01": 1, "2026-03-02": 1}),
    (["2026-03-01T00:30:00+05:30"], 330, {"2026-03-01": 1}),
    (["2026-03-05T12:00:00Z", "2026-03-04T12:00:00Z", "2026-03-05T13:00:00Z"], 0, {"2026-03-04": 1, "2026-03-05": 2}),
    ([], 600, {}),
]


def check(trial: Trial) -> bool:
    said = [call(trial.workspace, "days:per_day", events, offset) for events, offset, _ in CASES]
    return [[*each.items()] for each in said] == [[*want.items()] for _, _, want in CASES]
